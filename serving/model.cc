#include "serving/model.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <map>

#include "database/store.h"
#include "graph/plan.h"
#include "graph/rows.h"
#include "serving/status.h"

namespace tilewright::serving {
namespace {

graph::Graph read_graph(const std::string& path, const database::Trust& trust) {
  const database::Store store =
      database::Store::open(path, database::Mode::ReadOnly, std::chrono::seconds(5), trust);
  auto part = [&](const std::string& name) {
    database::Lookup<std::string> found = store.part(name);
    if (!found) throw database::DatabaseError(database::DatabaseError::Kind::Damaged, found.miss);
    return std::make_shared<const std::string>(std::move(*found.value));
  };
  graph::Graph graph = graph::parse_graph(*part(kProgramPart));
  std::map<std::string, graph::Bytes> read;  // constants that are equal have one part
  for (graph::Value& v : graph.values) {
    if (!v.constant || v.data != nullptr) continue;
    graph::Bytes& data = read[v.hash];
    if (data == nullptr) data = part(v.hash);
    v.data = data;
  }
  graph::verify(graph);
  return graph;
}

Port port_of(const graph::Graph& graph, size_t i) {
  const graph::Value& v = graph.values[i];
  return {v.name, v.elem, v.shape, v.bytes(), i, std::nullopt};
}

}  // namespace

// A launch that is ready but for its executor, or a write.
struct Model::Step {
  // Of a write.
  graph::Rows rows;
  const char *from = nullptr, *first = nullptr;
  char* state = nullptr;
  // Of a launch; null: a write.
  const Served* served = nullptr;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> given;  // null where the operand is packed
  std::unique_ptr<Weights> weights;
  size_t line = 0;
};

Model::Model(const std::string& path, const ModelOptions& options) { load(path, options); }

void Model::load(const std::string& path, const ModelOptions& options) {
  graph::Graph graph = read_graph(path, options.trust);
  library_ = std::make_unique<Library>(path, options.log, options.trust);
  PrepareOptions prepare;
  prepare.threads = options.threads;
  std::map<std::string, size_t> known;
  for (const graph::Node& node : graph.nodes) {
    if (!node.spec.empty() && known.emplace(node.spec, known.size()).second) {
      prepare.specs.push_back(node.spec);
    }
  }
  prepared_ = library_->prepare(prepare);
  const graph::Plan plan = graph::plan_memory(graph);
  places_ = plan.places;
  offsets_ = plan.offsets;
  least_bytes_ = plan.least_bytes;
  arena_ = Workspace(plan.bytes);
  constants_.resize(graph.values.size());
  add_states(graph, options.states_of);
  add_ports(graph);
  add_steps(graph);
  for (const auto& constant : constants_) weight_bytes_ += constant ? constant->bytes() : 0;
  for (const Port& state : states_) weight_bytes_ -= constants_[state.value]->bytes();
  reserve_workspace(1);
}

void Model::add_ports(const graph::Graph& graph) {
  for (size_t i : graph.inputs) {
    inputs_.push_back(port_of(graph, i));
    for (const graph::Node& node : graph.nodes) {
      if (!node.is_write() || node.operands.at("P") != i) continue;
      const int64_t last = graph::rows_of(graph, node).last_first();
      inputs_.back().last = std::min(last, inputs_.back().last.value_or(last));
    }
  }
  for (size_t i : graph.outputs) {
    outputs_.push_back(port_of(graph, i));
    place_of(graph, i);
  }
}

void Model::add_states(const graph::Graph& graph, const Model* lender) {
  for (size_t i : graph.states) {
    states_.push_back(port_of(graph, i));
    constants_[i] = lender != nullptr ? lender->lent(states_.back())
                                      : std::make_shared<Workspace>(states_.back().bytes);
    if (lender == nullptr) {
      std::memset(constants_[i]->data(), 0, static_cast<size_t>(states_.back().bytes));
    }
  }
}

std::shared_ptr<Workspace> Model::lent(const Port& state) const {
  std::string has = "none of that name";
  for (const Port& own : states_) {
    if (own.name != state.name) continue;
    if (own.elem == state.elem && own.shape == state.shape) return constants_[own.value];
    has = fmt::format("one of {}[{}]", to_string(own.elem), fmt::join(own.shape, ", "));
  }
  throw ServingError(
      TW_ERROR_ARGUMENT,
      fmt::format("state '{}' is {}[{}]; the model that shares its states has {}", state.name,
                  to_string(state.elem), fmt::join(state.shape, ", "), has));
}

// The place of a value's elements while the model runs.
void* Model::place_of(const graph::Graph& graph, size_t value) {
  const auto [root, bytes] = places_[value];
  if (offsets_[root] >= 0) return static_cast<char*>(arena_.data()) + offsets_[root] + bytes;
  if (constants_[root] == nullptr) {
    const std::string& data = *graph.values[root].data;
    constants_[root] = std::make_shared<Workspace>(static_cast<int64_t>(data.size()));
    std::memcpy(constants_[root]->data(), data.data(), data.size());
  }
  return constants_[root]->data();
}

void Model::add_steps(const graph::Graph& graph) {
  std::map<std::string, const ReportLine*> reports;
  std::string misses;
  for (const ReportLine& line : prepared_->report()) {
    reports.emplace(line.spec, &line);
    if (line.outcome != TW_MISS) continue;
    for (const graph::Node& node : graph.nodes) {
      if (node.spec == line.spec) misses += fmt::format("\n  {}: {}", node.label, line.reason);
    }
  }
  if (!misses.empty()) {
    throw ServingError(TW_ERROR_MISS,
                       fmt::format("nodes that no kernel serves here; 'tune-cli compile' makes "
                                   "them:{}",
                                   misses));
  }
  for (const graph::Node& node : graph.nodes) {
    if (node.is_view()) continue;
    if (node.is_write()) {
      steps_.push_back(std::make_shared<Step>(make_write(graph, node)));
      continue;
    }
    const ReportLine& r = *reports.at(node.spec);
    Step step = make_step(graph, node);
    step.line = lines_.size();
    lines_.push_back(
        {node.label, node.spec, r.kernel, r.sketch, r.outcome, r.reason, r.seconds, 0});
    steps_.push_back(std::make_shared<Step>(std::move(step)));
  }
}

Model::Step Model::make_write(const graph::Graph& graph, const graph::Node& node) {
  auto place = [&](const char* operand) {
    return static_cast<char*>(place_of(graph, node.operands.at(operand)));
  };
  Step step;
  step.rows = graph::rows_of(graph, node);
  step.from = place("R");
  step.first = place("P");
  step.state = place("X");
  return step;
}

Model::Step Model::make_step(const graph::Graph& graph, const graph::Node& node) {
  Step step;
  step.served = &prepared_->find(node.spec);
  const std::vector<Operand>& operands = step.served->operands();
  step.shapes.resize(operands.size());
  step.tensors.resize(operands.size());
  step.given.assign(operands.size(), nullptr);
  std::vector<tw_named_tensor> packed;
  std::vector<Workspace> copies;
  std::vector<size_t> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    values.push_back(o.role == ParamRole::Output ? node.output : node.operands.at(o.name));
    DLTensor& t = step.tensors[i];
    step.shapes[i] = o.known_shape;
    t = {};
    t.device = {kDLCPU, 0};
    t.dtype = dl_type(o.elem);
    t.ndim = static_cast<int32_t>(step.shapes[i].size());
    t.shape = step.shapes[i].data();
    if (o.packed != 0) {
      const std::string& data = *graph.values[places_[values.back()].root].data;
      copies.emplace_back(static_cast<int64_t>(data.size()));  // aligned, until it is packed
      std::memcpy(copies.back().data(), data.data(), data.size());
      t.data = copies.back().data();
      packed.push_back({o.name.c_str(), &t});
    }
  }
  if (!packed.empty()) {
    step.weights = std::make_unique<Weights>(
        step.served->pack(packed.data(), packed.size(), serial_executor()));
    weight_bytes_ += static_cast<int64_t>(step.weights->bytes());
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].packed == 1) continue;
    step.tensors[i].data = place_of(graph, values[i]);
    step.given[i] = &step.tensors[i];
  }
  return step;
}

void Model::reserve_workspace(int threads) {
  int64_t needed = 0;
  for (const auto& step : steps_) {
    if (step->served != nullptr) needed = std::max(needed, step->served->workspace_bytes(threads));
  }
  if (needed > scratch_.bytes()) scratch_ = Workspace(needed);
}

void Model::transfer(const DLTensor* const* tensors, size_t count, const std::vector<Port>& ports,
                     bool in) {
  const char* what = in ? "input" : "output";
  if (count != ports.size()) {
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("{} {}s; the model has {}", count, what, ports.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const Port& port = ports[i];
    const DLTensor* t = tensors[i];
    auto refuse = [&](const std::string& why) {
      throw ServingError(TW_ERROR_TENSOR, fmt::format("{} '{}': {}", what, port.name, why));
    };
    if (t == nullptr || t->data == nullptr) refuse("no tensor");
    const DLDataType type = dl_type(port.elem);
    const bool truth = port.elem == ElemType::u8 && t->dtype.code == kDLBool;
    if (t->device.device_type != kDLCPU) refuse("it is not in the memory of the host");
    if (!truth &&
        (t->dtype.code != type.code || t->dtype.bits != type.bits || t->dtype.lanes != 1)) {
      refuse(fmt::format("its elements are {}; expected {}", dl_type_name(t->dtype),
                         to_string(port.elem)));
    }
    if (t->ndim != static_cast<int32_t>(port.shape.size())) {
      refuse(fmt::format("it has {} axes; expected {}", t->ndim, port.shape.size()));
    }
    int64_t dense = 1;
    for (size_t d = port.shape.size(); d-- > 0;) {
      if (t->shape[d] != port.shape[d]) {
        refuse(fmt::format("axis {} has {}; expected {}", d, t->shape[d], port.shape[d]));
      }
      if (t->strides != nullptr && port.shape[d] != 1 && t->strides[d] != dense) {
        refuse(fmt::format("axis {} is not compact", d));
      }
      dense *= port.shape[d];
    }
    if (!in || !port.last) continue;
    int32_t first = 0;
    std::memcpy(&first, first_element(*t), sizeof first);
    if (first < 0 || first > *port.last) {
      refuse(fmt::format("it is {}; expected 0 to {}", first, *port.last));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const Port& port = ports[i];
    const auto [root, bytes] = places_[port.value];
    char* own = offsets_[root] >= 0 ? static_cast<char*>(arena_.data()) + offsets_[root] + bytes
                                    : static_cast<char*>(constants_[root]->data());
    if (in) {
      std::memcpy(own, first_element(*tensors[i]), static_cast<size_t>(port.bytes));
    } else {
      std::memcpy(first_element(*tensors[i]), own, static_cast<size_t>(port.bytes));
    }
  }
}

void Model::run_step(Step& step, const tw_executor& executor) {
  if (step.served == nullptr) {
    int32_t first = 0;
    std::memcpy(&first, step.first, sizeof first);
    step.rows.copy(step.from, first, step.state);
    return;
  }
  LaunchArgs args;
  args.tensors = step.given.data();
  args.tensor_count = step.given.size();
  args.weights = step.weights.get();
  args.workspace = scratch_.data();
  args.workspace_bytes = static_cast<size_t>(scratch_.bytes());
  args.executor = &executor;
  step.served->launch(args);
}

void Model::run(const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs,
                size_t output_count, const tw_executor& executor) {
  reserve_workspace(executor.threads);  // grows once per larger number of threads
  transfer(inputs, input_count, inputs_, true);
  for (const auto& step : steps_) run_step(*step, executor);
  transfer(outputs, output_count, outputs_, false);
}

void Model::profile(const DLTensor* const* inputs, size_t input_count,
                    const DLTensor* const* outputs, size_t output_count,
                    const tw_executor& executor) {
  using Clock = std::chrono::steady_clock;
  reserve_workspace(executor.threads);
  transfer(inputs, input_count, inputs_, true);
  for (const auto& step : steps_) {
    const auto before = Clock::now();
    run_step(*step, executor);
    if (step->served == nullptr) continue;
    lines_[step->line].seconds = std::chrono::duration<double>(Clock::now() - before).count();
  }
  transfer(outputs, output_count, outputs_, false);
}

}  // namespace tilewright::serving
