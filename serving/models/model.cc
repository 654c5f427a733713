#include "serving/models/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "graph/loops/loops.h"
#include "graph/plan.h"
#include "graph/rows.h"
#include "serving/gpu.h"
#include "serving/models/model_step.h"
#include "serving/status.h"

namespace tilewright::serving {

Model::Model(const std::string& path, const ModelOptions& options) { load(path, options); }

Model::Model(StoredModel source, std::unique_ptr<Prepared> prepared)
    : prepared_(std::move(prepared)) {
  build(source, nullptr);
}

Model::~Model() = default;

void* Model::state_data(size_t index) const {
  return frames_.front().constants[states_[index].value]->data();
}

void Model::load(const std::string& path, const ModelOptions& options) {
  StoredModel source(path, options.trust);
  const graph::Graph& graph = source.graph();
  // One line tells of all nodes.
  library_ = std::make_unique<Library>(source.take_table(), [](const std::string&) {});
  PrepareOptions prepare;
  prepare.threads = options.threads;
  prepare.target = options.target.empty() ? source.target() : options.target;
  prepare.device = options.device;
  prepare.alignment = graph::kValueAlignment;
  prepare.emulate = options.emulate;
  prepare.observer = options.observer;
  prepared_ = library_->prepare(prepare, source.index().facts());
  if (Target::parse(prepare.target).is_cuda()) require_no_states(graph);
  build(source, options.states_of);
  if (options.log) log_untuned(path, options.log);
}

void Model::build(StoredModel& source, const Model* states_of) {
  const graph::Graph& graph = source.graph();
  dims_ = graph.dims;
  gpu_ = prepared_->gpu();
  if (gpu_ != nullptr) place_ = {kDLCUDA, gpu_->index(), graph::kValueAlignment};
  const graph::Plan plan = graph::plan_memory(graph);
  frames_.emplace_back();
  Frame& frame = frames_.front();
  frame.graph = &graph;
  frame.places = plan.places;
  frame.offsets = plan.offsets;
  least_bytes_ = plan.least_bytes;
  arena_ = Block(plan.bytes, gpu_);
  frame.base = static_cast<char*>(arena_.data());
  frame.constants.resize(graph.values.size());
  add_states(graph, states_of);
  add_ports(source);
  add_steps(source, plan);
  for (const Frame& each : frames_) {
    for (const auto& constant : each.constants) weight_bytes_ += constant ? constant->bytes() : 0;
  }
  for (const Port& state : states_) weight_bytes_ -= frame.constants[state.value]->bytes();
  reserve_workspace(1);
  if (gpu_ != nullptr && dims_.empty()) {
    captured_ = std::make_unique<CapturedRun>(gpu_, [&](void* stream) {
      Sizes none = {};
      for (const auto& step : steps_) run_step(*step, none, {nullptr, stream}, false);
    });
  }
}

// Writes, plain nodes and rounds of loops are the host's work, and a captured run has no row that changes.
void Model::require_no_states(const graph::Graph& graph) const {
  if (graph::has_loops(graph)) {
    throw ServingError(TW_ERROR_ARGUMENT, "models with loops run on CPUs alone");
  }
  if (const auto plain = std::ranges::find_if(graph.nodes, &graph::Node::is_plain);
      plain != graph.nodes.end()) {
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("'{}' is a plain node: models with such nodes run on CPUs alone",
                                   plain->label));
  }
  if (graph.states.empty()) return;
  throw ServingError(TW_ERROR_ARGUMENT,
                     fmt::format("state '{}': models with states run on CPUs alone",
                                 graph.values[graph.states[0]].name));
}

void Model::add_ports(StoredModel& source) {
  const graph::Graph& graph = source.graph();
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
    place_of(source, frames_.front(), i);
  }
}

void Model::add_states(const graph::Graph& graph, const Model* lender) {
  for (size_t i : graph.states) {
    states_.push_back(port_of(graph, i));
    if (lender != nullptr) {
      frames_.front().constants[i] = lender->lent(states_.back());
      continue;
    }
    const int64_t bytes = graph.values[i].bytes();
    frames_.front().constants[i] = std::make_shared<Block>(bytes, nullptr);
    std::memset(frames_.front().constants[i]->data(), 0, static_cast<size_t>(bytes));
  }
}

std::shared_ptr<Block> Model::lent(const Port& state) const {
  std::string has = "none of that name";
  for (const Port& own : states_) {
    if (own.name != state.name) continue;
    if (own.elem == state.elem && own.shape == state.shape)
      return frames_.front().constants[own.value];
    has = fmt::format("one of {}[{}]", to_string(own.elem), fmt::join(own.shape, ", "));
  }
  throw ServingError(
      TW_ERROR_ARGUMENT,
      fmt::format("state '{}' is {}[{}]; the model that shares its states has {}", state.name,
                  to_string(state.elem), fmt::join(state.shape, ", "), has));
}

// The place of a value's elements while the model runs.
void* Model::place_of(StoredModel& source, Frame& frame, size_t value) {
  const auto [root, bytes] = frame.places[value];
  if (frame.offsets[root] >= 0) return frame.base + frame.offsets[root] + bytes;
  if (const auto outer = frame.outside.find(root); outer != frame.outside.end()) {
    return outer->second + bytes;
  }
  std::shared_ptr<Block>& block = frame.constants[root];
  if (block == nullptr) {
    const graph::Value& constant = frame.graph->values[root];
    block = std::make_shared<Block>(constant.bytes(), gpu_);
    if (gpu_ == nullptr) {
      source.read(constant, block->data());
    } else {
      const Workspace staged(constant.bytes());
      source.read(constant, staged.data());
      block->write(staged.data());
    }
  }
  return static_cast<char*>(block->data()) + bytes;
}

void Model::add_steps(StoredModel& source, const graph::Plan& plan) {
  specs_ = specs_of_nodes(source.graph());
  require_kernels(source);
  std::vector<Workspace> copies;  // of constants, while a step packs them
  for (const ReportLine& line : prepared_->report()) reports_.emplace(line.spec, &line);
  for (const graph::Node& node : source.graph().nodes) {
    add_step(source, frames_.front(), node, plan, copies, &steps_);
  }
  specs_.clear();
  reports_.clear();
}

void Model::add_step(StoredModel& source, Frame& frame, const graph::Node& node,
                     const graph::Plan& plan, std::vector<Workspace>& copies,
                     std::vector<std::shared_ptr<Step>>* steps) {
  if (node.is_view()) return;
  if (node.is_write()) {
    steps->push_back(std::make_shared<Step>(make_write(source, frame, node)));
    return;
  }
  if (node.is_plain()) {
    steps->push_back(std::make_shared<Step>(make_plain(source, frame, node)));
    return;
  }
  if (node.is_loop()) {
    const auto& [offset, body] =
        plan.bodies.at(static_cast<size_t>(&node - frame.graph->nodes.data()));
    steps->push_back(
        std::make_shared<Step>(make_loop(source, frame, node, body, frame.base + offset, copies)));
    return;
  }
  const NodeSpec& spec = source.index().specs[specs_.at(&node)];
  const ReportLine& r = *reports_.at(spec.facts.text);
  Step step = make_step(source, frame, node, spec, copies);
  step.line = lines_.size();
  lines_.push_back(
      {node.label, spec.facts.text, r.kernel, r.sketch, r.outcome, r.reason, r.seconds, 0});
  steps->push_back(std::make_shared<Step>(std::move(step)));
}

Model::Step Model::make_write(StoredModel& source, Frame& frame, const graph::Node& node) {
  auto place = [&](const char* operand) {
    return static_cast<char*>(place_of(source, frame, node.operands.at(operand)));
  };
  Step step;
  step.rows = graph::rows_of(*frame.graph, node);
  step.from = place("R");
  step.first = place("P");
  step.state = place("X");
  return step;
}

std::vector<size_t> Model::operands_of(const Frame& frame, const graph::Node& node,
                                       const Step& step) const {
  const auto refuse = [&](const std::string& why) {
    throw graph::GraphError(fmt::format("'{}': {}", node.label, why));
  };
  const graph::Graph& graph = *frame.graph;
  const std::vector<Operand>& operands = step.served->operands();
  if (node.operands.size() + 1 != operands.size()) {
    refuse(fmt::format("it has {} operands; its kernel takes {}", node.operands.size(),
                       operands.size() - 1));
  }
  int64_t least[kMaxDims], most[kMaxDims];
  for (size_t d = 0; d < step.sizes.size(); ++d) {
    least[d] = step.sizes[d].at(least_sizes().data());
    most[d] = step.sizes[d].at(largest_sizes().data());
  }
  const auto count_at = [](const Operand& operand, const int64_t* dims) {
    graph::Shape shape;
    for (const KernelExtent& extent : operand.shape) shape.push_back(extent_at(extent, dims));
    return graph::element_count(shape).value_or(-1);
  };
  std::vector<size_t> values;
  for (const Operand& o : operands) {
    const auto bound = node.operands.find(o.name);
    if (o.role != ParamRole::Output && bound == node.operands.end()) {
      refuse(fmt::format("operand {} is missing", o.name));
    }
    values.push_back(o.role == ParamRole::Output ? node.output : bound->second);
    const graph::Value& value = graph.values[values.back()];
    const DimSize count = graph::range_of(graph, graph::size_of(graph, value.count()));
    if (value.elem != o.elem || count.min != count_at(o, least) || count.max != count_at(o, most)) {
      refuse(fmt::format("operand {} is '{}' of {} elements of {}; its kernel takes {} of {}",
                         o.name, value.name, count.max, to_string(value.elem), count_at(o, most),
                         to_string(o.elem)));
    }
    if (o.packed != 0 && !graph.values[frame.places[values.back()].root].constant) {
      refuse(fmt::format("operand {} is packed once, and '{}' is calculated", o.name, value.name));
    }
  }
  return values;
}

Model::Step Model::make_step(StoredModel& source, Frame& frame, const graph::Node& node,
                             const NodeSpec& spec, std::vector<Workspace>& copies) {
  Step step;
  step.served = &prepared_->find(spec.facts.text);
  for (const Dim& dim : step.served->dims()) step.sizes.push_back(spec.sizes.at(dim.name));
  const std::vector<Operand>& operands = step.served->operands();
  const std::vector<size_t> values = operands_of(frame, node, step);
  step.shapes.resize(operands.size());
  step.tensors.resize(operands.size());
  step.given.assign(operands.size(), nullptr);
  std::vector<tw_named_tensor> packed;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand& o = operands[i];
    DLTensor& t = step.tensors[i];
    step.shapes[i] = o.known_shape;
    t = {};
    t.device = {kDLCPU, 0};
    t.dtype = dl_type(o.elem);
    t.ndim = static_cast<int32_t>(step.shapes[i].size());
    t.shape = step.shapes[i].data();
    if (o.packed == 0) continue;
    if (copies.size() == packed.size()) copies.emplace_back();
    t.data = const_cast<void*>(packed_from(source, frame, values[i], copies[packed.size()]));
    packed.push_back({o.name.c_str(), &t});
  }
  if (!packed.empty()) {
    step.weights = std::make_unique<Weights>(
        step.served->pack(packed.data(), packed.size(), serial_executor()));
    weight_bytes_ += static_cast<int64_t>(step.weights->bytes());
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].packed == 1) continue;
    step.tensors[i].data = place_of(source, frame, values[i]);
    step.tensors[i].device = {place_.device, place_.id};
    step.given[i] = &step.tensors[i];
  }
  return step;
}

// The elements of a constant, aligned, in memory that later steps use again: none are kept that only packing
// reads.
const void* Model::packed_from(const StoredModel& source, const Frame& frame, size_t value,
                               Workspace& copy) const {
  const auto [root, first] = frame.places[value];
  const graph::Value& constant = frame.graph->values[root];
  if (gpu_ == nullptr && frame.constants[root] != nullptr && first == 0) {
    return frame.constants[root]->data();
  }
  if (copy.bytes() < constant.bytes()) {
    copy = Workspace();  // before there is another one
    copy = Workspace(constant.bytes());
  }
  source.read(constant, copy.data());
  auto* data = static_cast<char*>(copy.data());
  if (first > 0) {
    std::memmove(data, data + first, static_cast<size_t>(frame.graph->values[value].bytes()));
  }
  return data;
}

int64_t Model::workspace_of(const std::vector<std::shared_ptr<Step>>& steps, int threads) {
  int64_t needed = 0;
  for (const auto& step : steps) {
    if (step->loop != nullptr) needed = std::max(needed, workspace_of(step->loop->steps, threads));
    if (step->served != nullptr) needed = std::max(needed, step->served->workspace_bytes(threads));
  }
  return needed;
}

void Model::reserve_workspace(int threads) {
  const int64_t needed = workspace_of(steps_, threads);
  if (needed > scratch_.bytes()) scratch_ = Block(needed, gpu_);
}

Sizes Model::sizes_of(const DLTensor* const* inputs, size_t count) const {
  check_count(count, inputs_, "input");
  Sizes sizes = {};
  for (size_t d = 0; d < dims_.size(); ++d) sizes[d] = dims_[d].by_value ? dims_[d].range.max : 0;
  for (size_t i = 0; i < count; ++i) {
    const Port& port = inputs_[i];
    check_kind(port, inputs[i], "input", place_);
    for (size_t axis = 0; axis < port.sizes.size(); ++axis) {
      for (size_t d = 0; d < dims_.size(); ++d) {
        graph::Size own;
        own.powers[d] = 1;
        if (port.sizes[axis] != own || sizes[d] != 0) continue;
        sizes[d] = inputs[i]->shape[axis];
        const DimSize& range = dims_[d].range;
        if (range.min <= sizes[d] && sizes[d] <= range.max) continue;
        throw ServingError(
            TW_ERROR_TENSOR,
            fmt::format("input '{}': axis {} ({}) has {}; expected {} to {}", port.name, axis,
                        dims_[d].name, sizes[d], range.min, range.max));
      }
    }
  }
  for (size_t i = 0; i < count; ++i) check_shape(inputs_[i], *inputs[i], sizes, "input");
  return sizes;
}

void Model::transfer(const DLTensor* const* tensors, const std::vector<Port>& ports,
                     const Sizes& sizes, bool in, void* stream) {
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    const int64_t bytes = port.bytes_at(sizes);
    const Frame& frame = frames_.front();
    const auto [root, first] = frame.places[port.value];
    char* own = frame.offsets[root] >= 0 ? frame.base + frame.offsets[root] + first
                                         : static_cast<char*>(frame.constants[root]->data());
    in ? copy_in(gpu_.get(), own, *tensors[i], bytes, stream)
       : copy_out(gpu_.get(), own, *tensors[i], bytes, stream);
  }
}

void Model::run_step(Step& step, Sizes& sizes, const Course& course, bool timed) {
  using Clock = std::chrono::steady_clock;
  if (step.loop != nullptr) return run_loop(step, sizes, course, timed);
  const auto started = timed ? Clock::now() : Clock::time_point();
  if (step.plain != nullptr) {
    sizes[step.plain->dim()] = step.plain->run(sizes.data());
  } else {
    launch_step(step, sizes, course);
  }
  if (!timed || (step.served == nullptr && step.plain == nullptr)) return;
  const std::chrono::duration<double> spent = Clock::now() - started;
  lines_[step.line].seconds += spent.count();
}

void Model::launch_step(Step& step, const Sizes& sizes, const Course& course) {
  if (step.served == nullptr) {
    int32_t first = 0;
    std::memcpy(&first, step.first, sizeof first);
    step.rows.copy(step.from, first, step.state);
    return;
  }
  if (!step.sizes.empty()) {
    int64_t dims[kMaxDims];
    for (size_t d = 0; d < step.sizes.size(); ++d) dims[d] = step.sizes[d].at(sizes.data());
    const std::vector<Operand>& operands = step.served->operands();
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t axis = 0; axis < operands[i].shape.size(); ++axis) {
        step.shapes[i][axis] = extent_at(operands[i].shape[axis], dims);
      }
    }
    if (std::count(dims, dims + step.sizes.size(), 0) > 0) return run_on_nothing(step, dims);
  }
  LaunchArgs args;
  args.tensors = step.given.data();
  args.tensor_count = step.given.size();
  args.weights = step.weights.get();
  args.workspace = scratch_.data();
  args.workspace_bytes = static_cast<size_t>(scratch_.bytes());
  args.executor = course.executor;
  args.stream = course.stream;
  step.served->launch(args);
}

template <class Run>
void Model::run_between(const DLTensor* const* inputs, size_t input_count,
                        const DLTensor* const* outputs, size_t output_count, const Course& course,
                        const Run& run) {
  Sizes sizes = sizes_of(inputs, input_count);
  check_count(output_count, outputs_, "output");
  bool has_host = false;
  for (size_t i = 0; i < output_count; ++i) {
    check_kind(outputs_[i], outputs[i], "output", place_);
    check_shape(outputs_[i], *outputs[i], sizes, "output");
    has_host |= outputs[i]->device.device_type == kDLCPU;
  }
  for (size_t i = 0; i < input_count; ++i) has_host |= inputs[i]->device.device_type == kDLCPU;
  if (gpu_ != nullptr) {
    gpu_->use();
  } else {
    reserve_workspace(course.executor->threads);  // grows once per larger number of threads
  }
  transfer(inputs, inputs_, sizes, true, course.stream);
  run(sizes);
  last_sizes_ = sizes;
  transfer(outputs, outputs_, sizes, false, course.stream);
  if (gpu_ != nullptr && has_host) wait_for(*gpu_, course.stream);
}

void Model::run(const DLTensor* const* inputs, size_t input_count, const DLTensor* const* outputs,
                size_t output_count, const Course& course) {
  run_between(inputs, input_count, outputs, output_count, course, [&](Sizes& sizes) {
    if (captured_ != nullptr) return captured_->start(course.stream);
    for (const auto& step : steps_) run_step(*step, sizes, course, false);
  });
}

void Model::profile(const DLTensor* const* inputs, size_t input_count,
                    const DLTensor* const* outputs, size_t output_count, const Course& course) {
  for (NodeLine& line : lines_) line.seconds = 0;
  run_between(inputs, input_count, outputs, output_count, course, [&](Sizes& sizes) {
    for (const auto& step : steps_) {
      if (gpu_ == nullptr) {
        run_step(*step, sizes, course, true);
      } else {
        lines_[step->line].seconds =
            seconds_on(*gpu_, course.stream, [&] { run_step(*step, sizes, course, false); });
      }
    }
  });
}

}  // namespace tilewright::serving
