#include "runtime/load/kernel.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "kernel/cpu_features.h"
#include "runtime/load/loader.h"
#include "runtime/load/object_state.h"

namespace tilewright {
namespace {

void close_object(void* handle) { dlclose(handle); }

void run_serially(void*, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t), void* closure) {
  if (n > 0) body(closure, 0, n, 0);
}

}  // namespace

void require_runnable(const KernelDescription& description) {
  if (description.abi != TW_KERNEL_ABI_VERSION) {
    throw KernelError(fmt::format("the kernel has calling convention {}, this build speaks {}",
                                  description.abi, TW_KERNEL_ABI_VERSION));
  }
  for (const std::string& feature : description.features) {
    if (cpu_features().count(feature) == 0) {
      throw KernelError(fmt::format("the kernel needs {}, which this processor lacks", feature));
    }
  }
}

Kernel::Kernel(std::string_view object, KernelDescription description,
               std::shared_ptr<CodeMemory> memory, std::string_view name)
    : description_(std::move(description)), handle_(nullptr, close_object) {
  require_runnable(description_);
  if (const std::string problem = object_state(object); !problem.empty()) {
    throw KernelError("the kernel's results may depend on earlier calls: " + problem);
  }
  if (memory != nullptr && object_problem(object).empty()) {
    placed_ = PlacedObject::place(object, std::move(memory));
  }
  if (placed_) placed_->name(name);
  if (!placed_) handle_.reset(load_shared_object(object));
  main_ = resolve(object, description_.main.symbol);
  for (const KernelFunction& f : description_.packs) packs_.push_back(resolve(object, f.symbol));
}

tw_kernel_fn Kernel::resolve(std::string_view object, const std::string& symbol) const {
  // "system" would be found, too: in the C library that every kernel needs.
  void* address = placed_ ? placed_->symbol(object, symbol) : symbol_of(handle_.get(), symbol);
  if (address == nullptr) {
    throw KernelError("the kernel's object has no function '" + symbol + "'");
  }
  return reinterpret_cast<tw_kernel_fn>(address);
}

void Kernel::pack(size_t index, void* const* args, const tw_context& context) const {
  require_success(pack_function(index)(args, nullptr, &context));
}

tw_kernel_fn Kernel::pack_function(size_t index) const {
  TW_ASSERT(index < packs_.size(), "the kernel has that many packing functions");
  return packs_[index];
}

void Kernel::fail(int32_t status) const {
  throw KernelError(fmt::format("kernel '{}' returned {}", description_.main.symbol, status));
}

int64_t workspace_bytes(const KernelFunction& function, int threads) {
  return function.workspace_bytes + threads * function.workspace_bytes_per_thread;
}

std::vector<int64_t> concrete_shape(const KernelParam& param, const std::vector<int64_t>& dims) {
  std::vector<int64_t> shape;
  for (const KernelExtent& extent : param.shape) {
    if (extent.factors.size() > dims.size()) {
      throw KernelError(fmt::format("operand '{}' has dynamic dimension {}, but {} were given",
                                    param.name, extent.factors.size() - 1, dims.size()));
    }
    shape.push_back(extent.at(dims));
  }
  return shape;
}

tw_context serial_context(void* workspace) { return {1, run_serially, nullptr, workspace}; }

Workspace::Workspace(int64_t bytes) : bytes_(bytes) {
  if (bytes <= 0) return;
  constexpr int64_t kHugePage = int64_t{2} << 20;
  // One core of a Zen 4 reads weights beyond its caches at 29 GB/s from huge pages, and at 21 from small ones.
  // A page that is filled by half is taken whole.
  const int64_t pages = (bytes + kHugePage / 2) / kHugePage;
  const int64_t alignment = pages > 0 ? kHugePage : 64;
  const int64_t size = std::max(pages * kHugePage, (bytes + 63) / 64 * 64);
  data_ = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
  if (data_ == nullptr) throw std::bad_alloc();
  if (pages > 0) madvise(data_, static_cast<size_t>(size), MADV_HUGEPAGE);
}

Workspace::~Workspace() { std::free(data_); }

Workspace::Workspace(Workspace&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace tilewright
