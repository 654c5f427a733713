// Kernels for the CPU: shared objects out of the database.
#include <fmt/format.h>

#include <utility>

#include "serving/device_kernel.h"

namespace tilewright::serving {
namespace {

void run_serially(void*, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t), void* closure) {
  if (n > 0) body(closure, 0, n, 0);
}

int64_t bytes_of(const KernelParam& param) {
  int64_t count = 1;
  for (int64_t extent : concrete_shape(param, {})) count *= extent;
  return bytes_for(param.elem, count);
}

class CpuKernel : public DeviceKernel {
 public:
  explicit CpuKernel(Kernel kernel) : kernel_(std::move(kernel)) {
    params_ = kernel_.description().main.params;
    dims_ = kernel_.description().dims;
    packs_ = kernel_.description().packs;
  }

  WorkspaceNeed workspace(const std::vector<int64_t>&) const override {
    const KernelFunction& main = kernel_.description().main;
    return {main.workspace_bytes, main.workspace_bytes_per_thread};
  }

  std::vector<PackedBuffer> pack(const std::map<std::string, const void*>& weights,
                                 const tw_executor& executor) const override {
    return pack_on_host(kernel_, weights, executor);
  }

  void launch(void* const* args, const int64_t* dims, const Resources& resources) const override {
    kernel_.launch(args, dims, resources.context);
  }

 private:
  Kernel kernel_;
};

}  // namespace

tw_context context_of(const tw_executor& executor, void* workspace) {
  return {executor.threads, executor.parallel_for, executor.pool, workspace};
}

const tw_executor& serial_executor() {
  static constexpr tw_executor serial = {sizeof(tw_executor), 1, run_serially, nullptr};
  return serial;
}

std::vector<PackedBuffer> pack_on_host(const Kernel& kernel,
                                       const std::map<std::string, const void*>& weights,
                                       const tw_executor& executor) {
  std::vector<PackedBuffer> buffers;
  const std::vector<KernelFunction>& packs = kernel.description().packs;
  for (size_t i = 0; i < packs.size(); ++i) {
    const KernelParam& made = packs[i].params.back();
    auto memory = std::make_shared<Workspace>(bytes_of(made));
    std::vector<void*> args;
    for (size_t p = 0; p + 1 < packs[i].params.size(); ++p) {
      args.push_back(const_cast<void*>(weights.at(packs[i].params[p].name)));  // it only reads them
    }
    args.push_back(memory->data());
    Workspace scratch(workspace_bytes(packs[i], executor.threads));
    kernel.pack(i, args.data(), context_of(executor, scratch.data()));
    buffers.push_back({made.name, std::shared_ptr<void>(memory, memory->data()), memory->bytes()});
  }
  return buffers;
}

std::shared_ptr<const DeviceKernel> load_cpu_kernel(const database::Artifact& artifact,
                                                    std::shared_ptr<CodeMemory> memory,
                                                    std::string_view name) {
  std::string_view object(reinterpret_cast<const char*>(artifact.bytes.data()),
                          artifact.bytes.size());
  return std::make_shared<CpuKernel>(
      Kernel(object, KernelDescription::from_json(artifact.description), std::move(memory), name));
}

}  // namespace tilewright::serving
