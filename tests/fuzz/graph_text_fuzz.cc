// The text form of graphs, which stands in model files.
#include "graph/optimize.h"
#include "graph/plan.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {
      "graph \"g\"\ninput \"x\": f32[2, 3]\nconst \"s\": f32[3] = {0.5, 1, -2}\n"
      "\"y\": f32[2, 3] = \"expr:expr=\\\"Y[i, j] = X[i, j] * S[j]\\\",dims.i=2,dims.j=3\" "
      "(S=\"s\", X=\"x\") for \"n\"\n\"z\": f32[3, 2] = view \"y\" for \"flat\"\noutput \"z\"\n",
      "const \"w\": f32[16, 8] = xxh3:0123456789abcdef\ninput \"x\": f32[4, 16]\n"
      "\"y\": f32[4, 8] = \"matmul:m=4,n=8,k=16\" (A=\"x\", B=\"w\")\noutput \"y\"\n",
      "input \"x\": f32[16]\n\"a\": f32[16] = \"expr:expr=\\\"Y[i] = X[i] * 2\\\",dims.i=16\" "
      "(X=\"x\")\n"
      "\"b\": f32[16] = \"expr:expr=\\\"Y[i] = X[i] * 5\\\",dims.i=16\" (X=\"a\")\n"
      "\"j\": f32[2, 16] = view \"b\", \"a\"\n\"s\": f32[4, 4] = view \"j\" from 16\n"
      "output \"j\"\noutput \"s\"\n",
      "input \"q\": f32[4, 2, 8]\ninput \"k\": f32[2, 8, 4]\n\"t\": f32[2, 4, 8] = \"expr:expr="
      "\\\"Y[h, s, e] = X[s, h, e]\\\",dims.h=2,dims.s=4,dims.e=8\" (X=\"q\")\n\"s\": f32[2, 4, 4] "
      "= "
      "\"expr:expr=\\\"Y[h, i, j] += Q[h, i, r] * K[h, r, "
      "j]\\\",dims.h=2,dims.i=4,dims.j=4,dims.r=8\" "
      "(K=\"k\", Q=\"t\")\n\"p\": f32[8, 4] = \"softmax:m=8,n=4\" (X=\"s\")\n\"o\": f32[2, 4, 8] = "
      "\"expr:expr=\\\"Y[h, i, e] += P[h, i, r] * V[h, r, "
      "e]\\\",dims.h=2,dims.i=4,dims.e=8,dims.r=4,"
      "shapes.P=[2,4,4]\" (P=\"p\", V=\"q\")\noutput \"o\"\n",
      "dim \"n\": at most 6 as 2137\ndim \"k\": at most 6 as 1913\ninput \"x\": f32[2, 3]\n"
      "\"p\": i64[2, 2137] = plain \"NonZero\" (X=\"x\")\n"
      "\"y\": f32[1913], \"i\": i64[1913], \"j\": i64[6], \"c\": i64[1913] = plain "
      "\"Unique:sorted=0\" (X=\"x\")\noutput \"p\"\noutput \"y\"\n",
      "# a program of files\ndim \"b\": 1..8 as 2137\nconst \"w\": f32[16, 8] = from "
      "\"w.safetensors\" "
      "\"l.0\"\nconst \"v\": u4[8] = from \"v.npy\"\ninput \"x\": f32[2137, 16]\n\"y\" = "
      "\"matmul:m=2137,n=8,k=16\" (A=\"x\", B=\"w\") for \"l\"\noutput \"y\"\n",
      "const \"i\": i64[2] = {-1, 9}\nconst \"t\": u8[1] = {1}\nconst \"o\": f16[] = {2}\n"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const graph::Graph graph = graph::parse_graph(fuzz::text_of(data, size));
    const std::string text = graph::to_string(graph);
    fuzz::require(graph::to_string(graph::parse_graph(text)) == text,
                  "the text of a graph reads back as another one");
    graph::verify(graph);
    const graph::Plan plan = graph::plan_memory(graph);
    for (const graph::Value& v : graph.values) {
      const graph::Place at = plan.places[graph.find(v.name)];
      fuzz::require(at.bytes >= 0 && at.bytes + v.bytes() <= graph.values[at.root].bytes(),
                    "a value lies outside of its place");
    }
    graph::Graph optimized = graph;
    graph::optimize(&optimized);
    graph::verify(optimized);
  } catch (const graph::GraphError&) {
  }
  return 0;
}
