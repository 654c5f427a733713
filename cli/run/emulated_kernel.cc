#include "cli/run/emulated_kernel.h"

#include <fmt/format.h>

#include <optional>

#include "emulator/emulate_program.h"
#include "kernel/cuda_description.h"
#include "runtime/check/weight_packing.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

class EmulatedKernel : public serving::DeviceKernel {
 public:
  explicit EmulatedKernel(const database::Artifact& artifact)
      : program_(CudaDescription::from_json(artifact.description)) {
    program_.source.text = artifact.source;
    params_ = program_.source.params;
    for (const DimVar& d : program_.source.dims) dims_.push_back(d.var.name());
    const KernelSource& packing = program_.source.packing;
    packs_ = packing.description.packs;
    if (packs_.empty()) return;
    const CompiledPacking& compiled = program_.packing;
    const bool fits = !compiled.object.empty() && compiled.processor == host_processor();
    packing_.emplace(fits ? compiled.object : compile_packing(packing).object, packing.description);
  }

  serving::WorkspaceNeed workspace(const std::vector<int64_t>&) const override { return {}; }

  std::vector<serving::PackedBuffer> pack(const std::map<std::string, const void*>& weights,
                                          const tw_executor& executor) const override {
    if (!packing_) return {};
    return serving::pack_on_host(*packing_, weights, executor);
  }

  void launch(void* const* args, const int64_t* dims, const serving::Resources&) const override {
    const std::vector<int64_t> sizes(dims, dims + dims_.size());
    std::vector<EmulatedBuffer> buffers;
    for (size_t i = 0; i < params_.size(); ++i) {
      int64_t count = 1;
      for (const KernelExtent& extent : params_[i].shape) count *= extent.at(sizes);
      buffers.push_back({params_[i].name, args[i], bytes_for(params_[i].elem, count),
                         params_[i].role != ParamRole::Output});
    }
    const EmulatorResult result = emulate_program(program_, std::move(buffers), sizes);
    if (!result.ok()) throw KernelError(result.fault->to_string());
  }

 private:
  CudaDescription program_;
  std::optional<Kernel> packing_;
};

}  // namespace

std::shared_ptr<const serving::DeviceKernel> load_emulated_kernel(
    const database::Artifact& artifact) {
  return std::make_shared<EmulatedKernel>(artifact);
}

}  // namespace tilewright::cli
