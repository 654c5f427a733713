// Model files of hand-written kernels.
#pragma once

#include "graph/graph.h"
#include "graph/loops/loops.h"
#include "serving/models/model.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {

// y = x B, a product of the fixture, and z, its elements as [32].
inline graph::Graph product_graph(const Floats& b) {
  const std::string data(static_cast<const char*>(b.tensor.data), 16 * 8 * sizeof(float));
  graph::Graph graph = graph::parse_graph(
      "graph \"product\"\ninput \"x\": f32[2, 2, 16]\nconst \"B\": f32[16, 8] = " +
      graph::data_hash(data) +
      "\n\"y\": f32[4, 8] = \"matmul:m=4,n=8,k=16\" (A=\"x\", B=\"B\") for \"dense\"\n"
      "\"z\": f32[32] = view \"y\"\noutput \"y\"\noutput \"z\"\n");
  graph.values[graph.find("B")].data = std::make_shared<const std::string>(data);
  return graph;
}

// The same product of 1 to 16 rows.
inline graph::Graph ranged_product_graph(const Floats& b) {
  const std::string data(static_cast<const char*>(b.tensor.data), 16 * 8 * sizeof(float));
  graph::Graph graph = graph::parse_graph(
      "graph \"product\"\ndim \"rows\": 1..16 as 2137\ninput \"x\": f32[2137, 2, 16]\n"
      "const \"B\": f32[16, 8] = " +
      graph::data_hash(data) +
      "\n\"y\": f32[4274, 8] = \"matmul:m=4274,n=8,k=16\" (A=\"x\", B=\"B\") for \"dense\"\n"
      "\"z\": f32[34192] = view \"y\"\noutput \"y\"\noutput \"z\"\n");
  graph.values[graph.find("B")].data = std::make_shared<const std::string>(data);
  return graph;
}

// The same, where y goes into rows of a state from "p" on.
inline graph::Graph with_state(const Floats& b, int64_t rows, const std::string& name = "s") {
  graph::Graph graph = product_graph(b);
  const std::string text = graph::to_string(graph);
  const std::string type = "f32[" + std::to_string(rows) + ", 8]";
  graph::Graph made =
      graph::parse_graph(text + "input \"p\": i32[1]\nstate \"" + name + "\": " + type +
                         "\n\"t\": " + type + " = write \"y\" to \"" + name + "\" at \"p\"\n");
  made.values[made.find("B")].data = graph.values[graph.find("B")].data;
  return made;
}

// The product of each of 3 inputs, back from the last one if asked for, in a loop of as many rounds or `n`.
inline graph::Graph with_loop(const Floats& b, bool back = false) {
  const std::string data(static_cast<const char*>(b.tensor.data), 16 * 8 * sizeof(float));
  const std::string rows = back ? "rows back " : "rows ";
  graph::Graph graph = graph::parse_graph(
      "graph \"loop\"\ninput \"xs\": f32[3, 4, 16]\ninput \"n\": i32[1]\n"
      "loop 3 at most \"n\" for \"steps\"\ninput \"x\": f32[4, 16] = " +
      rows + "\"xs\"\nconst \"B\": f32[16, 8] = " + graph::data_hash(data) +
      "\n\"y\": f32[4, 8] = \"matmul:m=4,n=8,k=16\" (A=\"x\", B=\"B\") for \"dense\"\n"
      "output \"y\"\n" +
      rows + "\"ys\": f32[3, 4, 8] = \"y\"\nend\noutput \"ys\"\n");
  graph::change_bodies(&graph, [&](graph::Loop* loop) {
    loop->body.values[loop->body.find("B")].data = std::make_shared<const std::string>(data);
  });
  return graph;
}

// A tensor of one i32.
struct Number {
  explicit Number(int32_t v) : value(v) {
    tensor.data = &value;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLInt, 32, 1};
    tensor.shape = &one;
  }
  int32_t value;
  int64_t one = 1;
  DLTensor tensor{};
};

// Writes the model file beside the database, with all kernels of that.
inline std::string write_model(const std::string& database, const graph::Graph& graph,
                               const std::string& name = "model.tw") {
  const database::ServingContent content = model_content(graph);
  std::string path = database.substr(0, database.rfind('/') + 1) + name;
  database::Store::open(database, database::Mode::ReadOnly).export_serving(path, content);
  return path;
}

class OpenedModel {
 public:
  explicit OpenedModel(const std::string& path, const tw_open_options* asked = nullptr) {
    auto open = TW_INIT(tw_open_options);
    open.log = [](void*, const char*) {};
    auto options = TW_INIT(tw_model_options);
    options.open = asked == nullptr ? &open : asked;
    status = tw_model_open(path.c_str(), &options, &model);
  }
  ~OpenedModel() { tw_model_close(model); }
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  tw_status run(const Floats& x, const Floats& y, const Floats& z,
                const tw_executor* executor = nullptr, bool profile = false) const {
    const DLTensor* inputs[] = {&x.tensor};
    const DLTensor* outputs[] = {&y.tensor, &z.tensor};
    auto args = TW_INIT(tw_model_args);
    args.inputs = inputs;
    args.input_count = 1;
    args.outputs = outputs;
    args.output_count = 2;
    args.executor = executor;
    args.profile = profile ? 1 : 0;
    return tw_model_run(model, &args);
  }

  tw_model* model = nullptr;
  tw_status status = TW_OK;
};

}  // namespace tilewright::serving::testing
