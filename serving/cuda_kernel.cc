// A GPU and kernels for it: cubins out of the database, started on the caller's stream.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/knobs.h"
#include "kernel/cuda_description.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/tensor_maps.h"
#include "runtime/error.h"
#include "serving/gpu.h"
#include "serving/size_value.h"

namespace tilewright::serving {

Gpu::Gpu(int index)
    : index_(index), driver_(cuda::open_driver(knob_text(Knob::CudaDriver))),
      facts_(cuda::device_facts(index, knob_text(Knob::CudaDriver))) {
  driver_.check(driver_.device(&device_, index), fmt::format("finding GPU {}", index));
  driver_.check(driver_.context_retain(&context_, device_), "opening " + facts_.name);
}

Gpu::~Gpu() { driver_.context_release(device_); }

bool Gpu::runs(const Target& target) const {
  const int here = facts_.compute_capability, wanted = target.gpu.compute_capability;
  const bool exactly = target.name.back() == 'a';  // code for one architecture alone
  return exactly ? here == wanted : here / 10 == wanted / 10 && here >= wanted;
}

namespace {

constexpr int64_t kScratchAlignment = 256;
constexpr int64_t kPlainSharedBytes = 48 << 10;
constexpr size_t kMaxTensorMaps = 8;  // of a launch: they stand on the stack of who launches
constexpr int kMaxDynamicShared = 8;  // the driver's number of that attribute of a function

int64_t aligned(int64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

class CudaKernel : public DeviceKernel {
 public:
  CudaKernel(const database::Artifact& artifact, std::shared_ptr<const Gpu> gpu);
  ~CudaKernel() override {
    gpu_->use_quietly();
    gpu_->driver().module_unload(module_);
  }

  WorkspaceNeed workspace(const std::vector<int64_t>& largest) const override;
  std::vector<PackedBuffer> pack(const std::map<std::string, const void*>& weights,
                                 const tw_executor& executor) const override;
  void launch(void* const* args, const int64_t* dims, const Resources& resources) const override;

 private:
  void check_description() const;
  void check_tensor_maps(const CudaLaunch& l, const std::vector<int64_t>& largest) const;
  TensorMapValues values_at(const TensorMap& map, const int64_t* dims) const;
  void find_kernels();
  PackedBuffer uploaded(const PackedBuffer& packed) const;
  void start(size_t index, void** arguments, const int64_t* dims, void* stream) const;

  std::shared_ptr<const Gpu> gpu_;
  CudaSource source_;
  cuda::Handle module_ = nullptr;
  std::vector<cuda::Handle> functions_;  // a launch each
  std::optional<Kernel> packing_;        // on the host
};

CudaKernel::CudaKernel(const database::Artifact& artifact, std::shared_ptr<const Gpu> gpu)
    : gpu_(std::move(gpu)) {
  CudaDescription description = CudaDescription::from_json(artifact.description);
  source_ = std::move(description.source);
  params_ = source_.params;
  for (const DimVar& d : source_.dims) dims_.push_back(d.var.name());
  packs_ = source_.packing.description.packs;
  check_description();
  if (!packs_.empty()) {
    const CompiledPacking& compiled = description.packing;
    if (compiled.object.empty() || compiled.processor != host_processor()) {
      throw KernelError(fmt::format("its weight-packing code was compiled for {}, this is {}",
                                    compiled.object.empty() ? "no processor" : compiled.processor,
                                    host_processor()));
    }
    packing_.emplace(compiled.object, source_.packing.description);
  }
  gpu_->use();
  // The driver reads it as an ELF file that ends where it says.
  std::string image(reinterpret_cast<const char*>(artifact.bytes.data()), artifact.bytes.size());
  gpu_->driver().check(gpu_->driver().module_load(&module_, image.data()),
                       fmt::format("loading a kernel on {}", gpu_->facts().name));
  try {
    find_kernels();
  } catch (...) {
    gpu_->driver().module_unload(module_);
    throw;
  }
}

// Refused here, so that no launch has to: what does not fit, and sizes that are no integers.
void CudaKernel::check_description() const {
  const size_t buffers = source_.params.size() + source_.scratch.size();
  if (buffers > kMaxOperands || source_.dims.size() > kMaxDims) {
    throw KernelError(
        fmt::format("the kernel has {} buffers and {} dimensions; at most {} and {} "
                    "are served",
                    buffers, source_.dims.size(), kMaxOperands, kMaxDims));
  }
  std::vector<int64_t> largest;
  for (const DimVar& d : source_.dims) largest.push_back(d.max);
  for (const CudaScratch& s : source_.scratch) {
    size_value(s.elements, source_.dims, largest.data());
  }
  for (const CudaLaunch& l : source_.launches) {
    for (const Expr& extent : l.grid) size_value(extent, source_.dims, largest.data());
    if (l.buffers.size() > kMaxOperands) {
      throw KernelError(fmt::format("launch '{}' takes {} buffers; at most {} are served", l.entry,
                                    l.buffers.size(), kMaxOperands));
    }
    for (int b : l.buffers) {
      if (b < 0 || static_cast<size_t>(b) >= buffers) {
        throw KernelError(fmt::format("launch '{}' takes buffer {} of {}", l.entry, b, buffers));
      }
    }
    check_tensor_maps(l, largest);
  }
}

// At the largest sizes. Others are tried by the driver when they come.
void CudaKernel::check_tensor_maps(const CudaLaunch& l, const std::vector<int64_t>& largest) const {
  if (l.tensor_maps.size() > kMaxTensorMaps) {
    throw KernelError(fmt::format("launch '{}' takes {} tensor maps; at most {} are served",
                                  l.entry, l.tensor_maps.size(), kMaxTensorMaps));
  }
  if (!l.tensor_maps.empty()) cuda::require_tensor_maps(gpu_->driver(), l.entry);
  for (const TensorMap& map : l.tensor_maps) {
    const std::string problem = tensor_map_problem(values_at(map, largest.data()), 0);
    if (problem.empty()) continue;
    throw KernelError(
        fmt::format("launch '{}' takes a tensor map that no device takes: {}", l.entry, problem));
  }
}

TensorMapValues CudaKernel::values_at(const TensorMap& map, const int64_t* dims) const {
  return values_of(map, [&](const Expr& size) { return size_value(size, source_.dims, dims); });
}

void CudaKernel::find_kernels() {
  const cuda::DriverFunctions& driver = gpu_->driver();
  for (const CudaLaunch& l : source_.launches) {
    cuda::Handle function = nullptr;
    driver.check(driver.module_function(&function, module_, l.entry.c_str()),
                 fmt::format("finding kernel '{}'", l.entry));
    if (l.shared_bytes > gpu_->facts().shared_bytes_per_block) {
      throw KernelError(fmt::format("kernel '{}': {} bytes of shared memory per block; {} has {}",
                                    l.entry, l.shared_bytes, gpu_->facts().name,
                                    gpu_->facts().shared_bytes_per_block));
    }
    if (l.shared_bytes > kPlainSharedBytes) {
      driver.check(
          driver.function_attribute(function, kMaxDynamicShared, static_cast<int>(l.shared_bytes)),
          fmt::format("kernel '{}'", l.entry));
    }
    functions_.push_back(function);
  }
}

WorkspaceNeed CudaKernel::workspace(const std::vector<int64_t>& largest) const {
  int64_t bytes = 0;
  for (const CudaScratch& s : source_.scratch) {
    bytes += aligned(bytes_for(s.elem, size_value(s.elements, source_.dims, largest.data())));
  }
  return {bytes, 0};
}

PackedBuffer CudaKernel::uploaded(const PackedBuffer& packed) const {
  const cuda::DriverFunctions& driver = gpu_->driver();
  const std::string doing = fmt::format("uploading {} bytes of packed weights", packed.bytes);
  cuda::DeviceAddress address = 0;
  driver.check(driver.allocate(&address, static_cast<size_t>(packed.bytes)), doing);
  // The driver's addresses are numbers, which frameworks pass on as pointers.
  void* pointer = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  std::shared_ptr<void> memory(pointer, [gpu = gpu_](void* at) {
    gpu->use_quietly();
    gpu->driver().free(reinterpret_cast<cuda::DeviceAddress>(at));
  });
  driver.check(
      driver.upload(address, packed.data.get(), static_cast<size_t>(packed.bytes), nullptr), doing);
  driver.check(driver.stream_wait(nullptr), doing);
  return {packed.name, std::move(memory), packed.bytes};
}

std::vector<PackedBuffer> CudaKernel::pack(const std::map<std::string, const void*>& weights,
                                           const tw_executor& executor) const {
  std::vector<PackedBuffer> buffers;
  if (!packing_) return buffers;
  gpu_->use();
  for (const PackedBuffer& packed : pack_on_host(*packing_, weights, executor)) {
    buffers.push_back(uploaded(packed));
  }
  return buffers;
}

void CudaKernel::start(size_t index, void** arguments, const int64_t* dims, void* stream) const {
  const CudaLaunch& l = source_.launches[index];
  cuda::LaunchShape shape;
  for (size_t x = 0; x < shape.grid.size(); ++x) {
    shape.grid[x] = static_cast<unsigned>(size_value(l.grid[x], source_.dims, dims));
    shape.block[x] = static_cast<unsigned>(l.block[x]);
  }
  shape.shared_bytes = static_cast<unsigned>(l.shared_bytes);
  shape.stream = stream;
  shape.dependent = l.dependent;
  const cuda::DriverFunctions& driver = gpu_->driver();
  const int status = cuda::launch_kernel(driver, functions_[index], shape, arguments);
  if (status != 0) driver.check(status, fmt::format("kernel '{}'", l.entry));
}

void CudaKernel::launch(void* const* args, const int64_t* dims, const Resources& resources) const {
  cuda::DeviceAddress buffers[kMaxOperands];
  size_t count = 0;
  for (; count < params_.size(); ++count) {
    buffers[count] = reinterpret_cast<cuda::DeviceAddress>(args[count]);
  }
  auto scratch = reinterpret_cast<cuda::DeviceAddress>(resources.context.workspace);
  for (const CudaScratch& s : source_.scratch) {
    buffers[count++] = scratch;
    scratch += static_cast<cuda::DeviceAddress>(
        aligned(bytes_for(s.elem, size_value(s.elements, source_.dims, dims))));
  }
  long long sizes[kMaxDims];
  std::copy(dims, dims + source_.dims.size(), sizes);
  gpu_->use();
  for (size_t i = 0; i < source_.launches.size(); ++i) {
    const CudaLaunch& l = source_.launches[i];
    void* arguments[kMaxOperands + kMaxTensorMaps + kMaxDims];
    cuda::EncodedTensorMap maps[kMaxTensorMaps];
    size_t n = 0, made = 0;
    for (int b : l.buffers) arguments[n++] = &buffers[b];
    for (const TensorMap& map : l.tensor_maps) {
      cuda::encode_tensor_map(gpu_->driver(), values_at(map, dims), buffers[map.buffer], l.entry,
                              maps[made]);
      arguments[n++] = &maps[made++];
    }
    for (size_t d = 0; d < source_.dims.size(); ++d) arguments[n++] = &sizes[d];
    start(i, arguments, dims, resources.stream);
  }
}

}  // namespace

std::shared_ptr<const DeviceKernel> load_cuda_kernel(const database::Artifact& artifact,
                                                     std::shared_ptr<const Gpu> gpu) {
  return std::make_shared<CudaKernel>(artifact, std::move(gpu));
}

}  // namespace tilewright::serving
