#include "serving/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>

#include "database/store.h"
#include "graph/plan.h"
#include "serving/status.h"

namespace tilewright::serving {

// A model file: its program, and its constants, which are read one at a time, so that a constant that
// is packed is in memory only while it is packed.
class Model::Source {
 public:
  // Throws DatabaseError, TrustError and GraphError.
  Source(const std::string& path, const database::Trust& trust)
      : store_(
            database::Store::open(path, database::Mode::ReadOnly, std::chrono::seconds(5), trust)),
        graph_(graph::parse_graph(part(kProgramPart))) {
    graph::verify(graph_);
  }

  const graph::Graph& graph() const { return graph_; }

  // The elements of a constant, until the next call. Throws DatabaseError.
  const std::string& data(size_t value) {
    const graph::Value& v = graph_.values[value];
    if (v.data != nullptr) return *v.data;
    if (hash_ == v.hash) return data_;
    hash_.clear();
    data_ = part(v.hash);
    if (static_cast<int64_t>(data_.size()) != v.bytes()) {
      throw database::DatabaseError(database::DatabaseError::Kind::Damaged,
                                    fmt::format("constant \"{}\" has {} bytes; its type needs {}",
                                                v.name, data_.size(), v.bytes()));
    }
    hash_ = v.hash;
    return data_;
  }

 private:
  std::string part(const std::string& name) const {
    database::Lookup<std::string> found = store_.part(name);
    if (!found) throw database::DatabaseError(database::DatabaseError::Kind::Damaged, found.miss);
    return std::move(*found.value);
  }

  database::Store store_;
  graph::Graph graph_;
  std::string hash_, data_;  // the constant that was read last
};
// A launch that is ready but for its executor.
struct Model::Step {
  const Served* served = nullptr;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> given;  // null where the operand is packed
  std::unique_ptr<Weights> weights;
  size_t line = 0;
};

Model::Model(const std::string& path, const ModelOptions& options) { load(path, options); }

void Model::load(const std::string& path, const ModelOptions& options) {
  Source source(path, options.trust);
  const graph::Graph& graph = source.graph();
  // One line tells of all nodes.
  library_ = std::make_unique<Library>(
      path, [](const std::string&) {}, options.trust);
  PrepareOptions prepare;
  prepare.threads = options.threads;
  std::map<std::string, size_t> known;
  for (const graph::Node& node : graph.nodes) {
    if (!node.is_view() && known.emplace(node.spec, known.size()).second) {
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
  add_ports(source);
  add_steps(source);
  for (const auto& constant : constants_) weight_bytes_ += constant ? constant->bytes() : 0;
  reserve_workspace(1);
  if (options.log) log_untuned(path, options.log);
}

// Says how many nodes run on kernels that were not tuned for them here.
void Model::log_untuned(const std::string& path, const Library::Log& log) const {
  const auto count = [&](tw_outcome outcome) {
    return std::ranges::count(lines_, outcome, &NodeLine::outcome);
  };
  const auto first =
      std::ranges::find_if(lines_, [](const NodeLine& line) { return line.outcome != TW_HIT; });
  if (first == lines_.end()) return;
  const auto report = std::ranges::find(prepared_->report(), first->spec, &ReportLine::spec);
  log(
      fmt::format("{}: {} of {} nodes run on near kernels and {} on untuned defaults; {}: {}; "
                  "'tune-cli explain {}' tells of each; this would tune them: {}",
                  path, count(TW_NEAR), lines_.size(), count(TW_DEFAULT), first->label,
                  first->reason, path, report->command));
}

void Model::add_ports(Source& source) {
  const graph::Graph& graph = source.graph();
  auto port = [&](size_t i) {
    const graph::Value& v = graph.values[i];
    return Port{v.name, v.elem, v.shape, v.bytes(), i};
  };
  for (size_t i : graph.inputs) inputs_.push_back(port(i));
  for (size_t i : graph.outputs) {
    outputs_.push_back(port(i));
    place_of(source, i);
  }
}

// The place of a value's elements while the model runs.
void* Model::place_of(Source& source, size_t value) {
  const auto [root, bytes] = places_[value];
  if (offsets_[root] >= 0) return static_cast<char*>(arena_.data()) + offsets_[root] + bytes;
  if (constants_[root] == nullptr) {
    const std::string& data = source.data(root);
    constants_[root] = std::make_shared<Workspace>(static_cast<int64_t>(data.size()));
    std::memcpy(constants_[root]->data(), data.data(), data.size());
  }
  return constants_[root]->data();
}

void Model::add_steps(Source& source) {
  const graph::Graph& graph = source.graph();
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
    const ReportLine& r = *reports.at(node.spec);
    Step step = make_step(source, node);
    step.line = lines_.size();
    lines_.push_back(
        {node.label, node.spec, r.kernel, r.sketch, r.outcome, r.reason, r.seconds, 0});
    steps_.push_back(std::make_shared<Step>(std::move(step)));
  }
}

Model::Step Model::make_step(Source& source, const graph::Node& node) {
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
      const auto [root, first] = places_[values.back()];
      const int64_t bytes = source.graph().values[values.back()].bytes();
      copies.emplace_back(bytes);  // aligned, until it is packed
      std::memcpy(copies.back().data(), source.data(root).data() + first,
                  static_cast<size_t>(bytes));
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
    step.tensors[i].data = place_of(source, values[i]);
    step.given[i] = &step.tensors[i];
  }
  return step;
}

void Model::reserve_workspace(int threads) {
  int64_t needed = 0;
  for (const auto& step : steps_) {
    needed = std::max(needed, step->served->workspace_bytes(threads));
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
    lines_[step->line].seconds = std::chrono::duration<double>(Clock::now() - before).count();
  }
  transfer(outputs, output_count, outputs_, false);
}

}  // namespace tilewright::serving
