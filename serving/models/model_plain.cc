// Plain nodes of a model, launches that they leave without work, and sizes.
#include <algorithm>

#include "graph/plain/compute.h"
#include "ir/ops/spec.h"
#include "serving/models/model_step.h"
#include "serving/status.h"

namespace tilewright::serving {

Model::Step Model::make_plain(StoredModel& source, Frame& frame, const graph::Node& node) {
  Step step;
  step.plain = std::make_unique<graph::PlainRoutine>(*frame.graph, node);
  step.plain->reserve();
  const auto place = [&](size_t value) {
    return static_cast<char*>(place_of(source, frame, value));
  };
  for (size_t i = 0; i < step.plain->inputs().size(); ++i) {
    const size_t value = step.plain->inputs()[i];
    if (value != graph::PlainRoutine::kNone) step.plain->bind_input(i, place(value));
  }
  for (size_t o = 0; o < step.plain->outputs().size(); ++o) {
    step.plain->bind_output(o, place(step.plain->outputs()[o]));
  }
  step.line = lines_.size();
  lines_.push_back({node.label, "plain " + node.plain, "", "", TW_HIT, "", 0, 0});
  return step;
}

// Kernels are made for sizes of 1 and more. Without elements in the output there is nothing to do; else the node
// reduces over nothing, and its oracle says what that gives.
void Model::run_on_nothing(const Step& step, const int64_t* dims) const {
  const std::vector<Operand>& operands = step.served->operands();
  if (std::ranges::count(step.shapes.back(), 0) > 0) return;
  std::map<std::string, int64_t> sizes;
  for (size_t d = 0; d < step.sizes.size(); ++d) sizes[step.served->dims()[d].name] = dims[d];
  std::map<std::string, graph::ComputeOperand> given;
  for (size_t i = 0; i + 1 < operands.size(); ++i) {
    if (step.given[i] == nullptr) continue;  // packed: a factor of a sum over nothing
    given[operands[i].name] = {operands[i].elem, static_cast<const char*>(step.tensors[i].data)};
  }
  graph::compute_each(parse_workload(lines_[step.line].spec), sizes, given,
                      static_cast<char*>(step.tensors.back().data));
}

Sizes Model::largest_sizes() const {
  Sizes sizes = {};
  for (size_t d = 0; d < dims_.size(); ++d) sizes[d] = dims_[d].range.max;
  return sizes;
}

Sizes Model::least_sizes() const {
  Sizes sizes = {};
  for (size_t d = 0; d < dims_.size(); ++d) sizes[d] = dims_[d].range.min;
  return sizes;
}

const Sizes& Model::last_sizes() const {
  if (!last_sizes_) throw ServingError(TW_ERROR_ARGUMENT, "the model has not run");
  return *last_sizes_;
}

}  // namespace tilewright::serving
