// Plain nodes: sizes that values of a run say, by the interpreter.
#include "graph/plain/plain.h"

#include <gmock/gmock.h>

#include "graph/optimize.h"
#include "tests/graph/graphs.h"
#include "tests/graph/imports.h"

namespace tilewright::graph {
namespace {

using test::OnnxFile;
using test::whole;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kTruth = 9;  // of ONNX's types
constexpr const char* kFound =
    "dim \"n\": at most 6 as 2137\ninput \"x\": f32[2, 3]\n"
    "\"p\": i64[2, 2137] = plain \"NonZero\" (X=\"x\")\n";

template <class T>
std::vector<T> elements_of(const Bytes& bytes) {
  std::vector<T> values(bytes->size() / sizeof(T));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

struct Made {
  std::vector<Bytes> outputs;
  std::vector<Shape> shapes;
};

Made made_by(const Graph& graph, const std::map<std::string, Bytes>& inputs) {
  Made made;
  std::map<std::string, Bytes> states;
  verify(graph);
  made.outputs = interpret(graph, inputs, &states, {}, &made.shapes);
  return made;
}

Bytes flags_of(const std::vector<uint8_t>& values) {
  return std::make_shared<std::string>(values.begin(), values.end());
}

TEST(GraphPlain, TextsHaveSizesThatNodesSay) {
  const Graph graph = parse_graph(
      std::string("graph \"g\"\ndim \"k\": at most 6 as 1913\n") + kFound +
      "\"y\": f32[1913, 3], \"i\": i64[1913], \"j\": i64[2], \"c\": i64[1913] = "
      "plain \"Unique:axis=0,sorted=0\" (X=\"x\") for \"rows\"\noutput \"p\"\noutput \"y\"\n");
  verify(graph);
  const std::string text = to_string(graph);
  EXPECT_THAT(text, HasSubstr("dim \"n\": at most 6 as 2137"));
  EXPECT_THAT(text, HasSubstr("\"c\": i64[1913] = plain \"Unique:axis=0,sorted=0\""));
  EXPECT_EQ(to_string(parse_graph(text)), text);
  EXPECT_EQ(most_bytes(graph, graph.values[graph.find("p")]), 2 * 6 * 8);
}

TEST(GraphPlain, TheVerifierKnowsOperatorsAndSizes) {
  const std::string found = kFound;
  const auto mistake = [](const std::string& text) {
    try {
      verify(parse_graph(text));
    } catch (const GraphError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(mistake(found), "");
  EXPECT_THAT(mistake("dim \"n\": at most 6 as 2137\ninput \"x\": f32[2137]\n"),
              HasSubstr("no plain node of this program or body says the size 'n' before"));
  EXPECT_THAT(mistake(found + "\"q\": i64[2, 2137] = plain \"NonZero\" (X=\"x\")\n"),
              HasSubstr("'q': another node says the size 'n'"));
  EXPECT_THAT(mistake(found + "\"q\": i64[7] = plain \"Sort\" (X=\"x\")\n"),
              HasSubstr("no plain operator 'Sort'; expected one of NonZero, Compress, Unique, "));
  EXPECT_THAT(mistake(found + "\"q\": i64[7] = plain \"NonZero:axis=0\" (X=\"x\")\n"),
              HasSubstr("'axis=0' is no option of NonZero; expected none"));
  EXPECT_THAT(mistake(found + "\"q\": i64[2, 9] = plain \"NonZero\" (X=\"x\")\n"),
              HasSubstr("'q' is i64[2, 9]; NonZero gives another shape"));
  EXPECT_THAT(mistake(found + "\"q\": f32[4] = plain \"Compress\" (X=\"x\")\n"),
              HasSubstr("operand C is missing"));
  EXPECT_THAT(mistake(found + "\"q\": f32[4] = plain \"Compress\" (X=\"x\", C=\"x\")\n"),
              HasSubstr("operand C is 'x' of f32[2, 3], which Compress does not take"));
  EXPECT_THAT(mistake("input \"x\": f32[2, 3]\nloop 2\ninput \"r\": f32[1, 3] = rows \"x\"\n" +
                      std::string("\"p\": i64[2, 1] = plain \"NonZero\" (X=\"r\")\noutput \"p\"\n"
                                  "rows \"y\": i64[2, 2] = \"p\"\nend\n")),
              HasSubstr("its body has a plain node"));
}

TEST(GraphPlain, NothingIsWrittenBeyondWhatTheProgramSays) {
  const Graph graph = parse_graph(
      "dim \"n\": at most 2 as 2137\ninput \"x\": f32[4]\n"
      "\"p\": i64[1, 2137] = plain \"NonZero\" (X=\"x\") for \"find\"\noutput \"p\"\n");
  EXPECT_THAT(elements_of<int64_t>(made_by(graph, {{"x", floats({0, 1, 0, 2})}}).outputs[0]),
              ElementsAre(1, 3));
  EXPECT_THROW(made_by(graph, {{"x", floats({3, 1, 0, 2})}}), GraphError);
}

// Rows that a run chooses, a function of each, and a sum over them: of nothing, too.
TEST(GraphPlain, NodesBehindHaveTheSizeThatWasFound) {
  OnnxFile file;
  file.input("x", {4, 3})
      .input("c", {4}, kTruth)
      .node("Compress", {"x", "c"}, {"rows"}, {whole("axis", 0)})
      .node("Exp", {"rows"}, {"e"})
      .node("ReduceSum", {"e"}, {"sum"}, {whole("keepdims", 0), test::wholes("axes", {0})})
      .node("ReduceMax", {"rows"}, {"most"}, {whole("keepdims", 0), test::wholes("axes", {0})})
      .output("e")
      .output("sum")
      .output("most");
  Graph graph = imported(file);
  optimize(&graph);
  const std::vector<float> x = random_floats(12, 3);
  for (const std::vector<uint8_t>& chosen :
       {std::vector<uint8_t>{1, 0, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 0}}) {
    std::vector<float> e, sum(3, 0), most(3, -INFINITY);
    for (size_t i = 0; i < 12; ++i) {
      if (chosen[i / 3] == 0) continue;
      e.push_back(std::exp(x[i]));
      sum[i % 3] += e.back();
      most[i % 3] = std::max(most[i % 3], x[i]);
    }
    const Made made = made_by(graph, {{"x", floats(x)}, {"c", flags_of(chosen)}});
    EXPECT_THAT(made.shapes[0], ElementsAre(static_cast<int64_t>(e.size()) / 3, 3));
    EXPECT_THAT(elements_of<float>(made.outputs[0]),
                testing::Pointwise(testing::FloatNear(1e-5), e));
    EXPECT_THAT(elements_of<float>(made.outputs[1]),
                testing::Pointwise(testing::FloatNear(1e-5), sum));
    EXPECT_THAT(elements_of<float>(made.outputs[2]), testing::Pointwise(testing::FloatEq(), most));
  }
}

TEST(GraphPlain, UniqueHasFirstPlacesInBothOrders) {
  const auto unique = [](int sorted) {
    OnnxFile file;
    file.input("x", {6})
        .node("Unique", {"x"}, {"y", "i", "j", "c"}, {whole("sorted", sorted)})
        .output("y")
        .output("i")
        .output("j")
        .output("c");
    return made_by(imported(file), {{"x", floats({2, 1, 1, NAN, 4, 2})}});
  };
  Made made = unique(1);
  EXPECT_THAT(elements_of<int64_t>(made.outputs[1]), ElementsAre(1, 0, 4, 3));
  EXPECT_THAT(elements_of<int64_t>(made.outputs[2]), ElementsAre(1, 0, 0, 3, 2, 1));
  EXPECT_THAT(elements_of<int64_t>(made.outputs[3]), ElementsAre(2, 2, 1, 1));
  made = unique(0);
  EXPECT_THAT(elements_of<int64_t>(made.outputs[1]), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(elements_of<int64_t>(made.outputs[2]), ElementsAre(0, 1, 1, 2, 3, 0));
  EXPECT_THAT(elements_of<int64_t>(made.outputs[3]), ElementsAre(2, 2, 1, 1));
}

// Passes let workloads read what a view shows in another shape. Places depend on the shape.
TEST(GraphPlain, PlacesAreThoseOfTheShapeThatAViewShows) {
  OnnxFile file;
  file.input("x", {6})
      .integers("shape", {2, 3})
      .node("Reshape", {"x", "shape"}, {"table"})
      .node("NonZero", {"table"}, {"y"})
      .output("y");
  Graph graph = imported(file);
  fold_constants(&graph);
  optimize(&graph);
  const Made made = made_by(graph, {{"x", floats({0, 1, 0, 0, 0, 1})}});
  EXPECT_THAT(made.shapes[0], ElementsAre(2, 2));
  EXPECT_THAT(elements_of<int64_t>(made.outputs[0]), ElementsAre(0, 1, 1, 2));
}

// Places of a constant are constants: nothing is left to a run.
TEST(GraphPlain, PlacesOfConstantsAreKnown) {
  OnnxFile file;
  file.input("x", {4})
      .integers("mask", {0, 1, 0, 1})
      .node("NonZero", {"mask"}, {"p"})
      .integers("flat", {-1})
      .node("Reshape", {"p", "flat"}, {"places"})
      .node("Gather", {"x", "places"}, {"y"})
      .output("y");
  const Graph graph = imported(file);
  EXPECT_THAT(graph.dims, IsEmpty());
  EXPECT_THAT(elements_of<float>(made_by(graph, {{"x", floats({5, 6, 7, 8})}}).outputs[0]),
              ElementsAre(6, 8));
}

TEST(GraphPlain, WhatIsNotCoveredIsNamed) {
  OnnxFile file;
  file.input("x", {4})
      .node("NonZero", {"x"}, {"p"})
      .node("Concat", {"p", "p"}, {"q"}, {whole("axis", 1)})
      .constant("one", test::kInt64, {1, 1}, test::raw_text<int64_t>({1}))
      .node("Concat", {"q", "one"}, {"y"}, {whole("axis", 1)})
      .output("y");
  EXPECT_THAT(import_refusal(file), HasSubstr("make_y (Concat): a size is (1+2*p.1), and values of "
                                              "the run say p.1"));
}

}  // namespace
}  // namespace tilewright::graph
