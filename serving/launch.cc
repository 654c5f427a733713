// One launch: from a caller's tensors to the call of a kernel's function. On the way that succeeds
// nothing is allocated and no lock is taken.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "serving/served.h"
#include "serving/status.h"

namespace tilewright::serving {
namespace {

std::string dims_text(const std::vector<Dim>& dims, const int64_t* values) {
  Box box;
  for (size_t d = 0; d < dims.size(); ++d) box.push_back({values[d], values[d]});
  return box_text(dims, box);
}

}  // namespace

void Served::check_kinds(const LaunchArgs& args) const {
  if (args.tensor_count != operands_.size()) {
    std::string names;
    for (const Operand& o : operands_) names += (names.empty() ? "" : ", ") + o.name;
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("{} tensors; {} takes {}: {}", args.tensor_count, text_,
                                   operands_.size(), names));
  }
  require(args.tensors, "tensors");
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (args.tensors[i] != nullptr) check_kind(operands_[i], *args.tensors[i], place_);
  }
}

void Served::read_dims(const LaunchArgs& args, int64_t* dims) const {
  for (size_t d = 0; d < dims_.size(); ++d) {
    const DimPlace& place = dim_places_[d];
    const Operand& operand = operands_[place.operand];
    if (args.tensors[place.operand] == nullptr) {
      throw ServingError(TW_ERROR_TENSOR, fmt::format("operand '{}': no tensor", operand.name));
    }
    dims[d] = args.tensors[place.operand]->shape[place.axis];
    if (dims[d] < dims_[d].min || dims[d] > dims_[d].max) {
      throw ServingError(
          TW_ERROR_TENSOR,
          fmt::format("operand '{}': dimension {} ({}) is {}; expected {} to {}", operand.name,
                      place.axis, dims_[d].name, dims[d], dims_[d].min, dims_[d].max));
    }
  }
}

const Variant& Served::variant_for(const int64_t* dims) const {
  for (const Variant& v : variants_) {
    if (v.takes(dims)) return v;
  }
  std::string known;
  for (const Variant& v : variants_) {
    known += (known.empty() ? "" : "; ") + box_text(dims_, v.box);
  }
  throw ServingError(TW_ERROR_MISS,
                     fmt::format("{}: no kernel was prepared for {}; there are kernels for {}",
                                 text_, dims_text(dims_, dims), known));
}

const PackedVariant* Served::packed_for(const Variant& variant, const Weights* weights) const {
  if (variant.identity.empty()) return nullptr;
  if (weights == nullptr) {
    throw ServingError(TW_ERROR_WEIGHTS,
                       fmt::format("the kernel of {} takes packed weights {}, and none were given; "
                                   "tw_pack_weights makes them",
                                   text_, variant.identity));
  }
  for (const PackedVariant& packed : weights->variants) {
    if (packed.identity == variant.identity) return &packed;
  }
  throw ServingError(
      TW_ERROR_WEIGHTS,
      fmt::format("the kernel of {} takes packed weights {}; these are {}", text_, variant.identity,
                  weights->identity.empty() ? "weights of a kernel that packs nothing"
                                            : weights->identity));
}

void Served::check_workspace(const Variant& variant, const LaunchArgs& args, int threads) const {
  const auto needed = static_cast<size_t>(variant.workspace.bytes(threads));
  if (needed == 0) return;
  if (args.workspace == nullptr || args.workspace_bytes < needed) {
    throw ServingError(TW_ERROR_MEMORY,
                       fmt::format("the workspace has {} bytes; {} on {} needs {}",
                                   args.workspace == nullptr ? 0 : args.workspace_bytes, text_,
                                   database::threads_text(threads), needed));
  }
  if (reinterpret_cast<uintptr_t>(args.workspace) % place_.alignment != 0) {
    throw ServingError(TW_ERROR_MEMORY,
                       fmt::format("the workspace is not aligned to {} bytes", place_.alignment));
  }
}

const DLTensor& Served::tensor(const LaunchArgs& args, size_t operand, const int64_t* dims) const {
  const DLTensor* given = args.tensors[operand];
  if (given == nullptr) {
    throw ServingError(TW_ERROR_TENSOR,
                       fmt::format("operand '{}': no tensor", operands_[operand].name));
  }
  check_layout(operands_[operand], *given, dims, dim_names_, place_);
  return *given;
}

void Served::launch(const LaunchArgs& args) const {
  check_kinds(args);
  int64_t dims[kMaxDims];
  read_dims(args, dims);
  const Variant& variant = variant_for(dims);
  const PackedVariant* packed = packed_for(variant, args.weights);
  const tw_executor& executor = args.executor == nullptr ? serial_executor() : *args.executor;
  check_workspace(variant, args, executor.threads);

  void* pointers[kMaxOperands];
  for (size_t i = 0; i < variant.args.size(); ++i) {
    const ArgSource& source = variant.args[i];
    pointers[i] = source.packed >= 0
                      ? packed->buffers[static_cast<size_t>(source.packed)].data.get()
                      : first_element(tensor(args, static_cast<size_t>(source.operand), dims));
  }
  int64_t kernel_dims[kMaxDims];
  for (size_t d = 0; d < variant.dims.size(); ++d) {
    const DimSource& source = variant.dims[d];
    kernel_dims[d] = source.dim < 0 ? source.fixed : dims[source.dim];
  }
  launch_observed(variant, pointers, kernel_dims,
                  {context_of(executor, args.workspace), args.stream});
}

void Served::launch_observed(const Variant& variant, void* const* pointers, const int64_t* dims,
                             const Resources& resources) const {
  if (observer_.call == nullptr || place_.device != kDLCPU) {
    return variant.kernel->launch(pointers, dims, resources);
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  variant.kernel->launch(pointers, dims, resources);
  const std::chrono::duration<double> spent = Clock::now() - begin;
  const tw_launch_event event = {sizeof event, text_.c_str(), spent.count(),
                                 resources.context.threads};
  observer_.call(observer_.user, &event);
}

}  // namespace tilewright::serving
