// A compiled kernel in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kernel/kernel_abi.h"
#include "kernel/kernel_source.h"
#include "runtime/error.h"
#include "runtime/load/placed_object.h"

namespace tilewright {

// Throws KernelError for another calling convention than this build's, and for features that this
// processor lacks. Loads nothing.
void require_runnable(const KernelDescription& description);

// A loaded shared object and its functions. Loading touches no file system path (unless the system
// has no anonymous files). Launching is safe from many threads at once, as long as each call has
// its own workspace; moving and destroying are not.
class Kernel {
 public:
  // Throws KernelError for bytes that do not load, another calling convention, and symbols that the
  // object lacks.
  // With `memory` an object that needs nothing of the loader is placed there, which takes less time; it must not
  // be called before that is sealed. Debuggers do not find its functions, and profilers only its `name`.
  Kernel(std::string_view object, KernelDescription description,
         std::shared_ptr<CodeMemory> memory = nullptr, std::string_view name = "a kernel");

  const KernelDescription& description() const { return description_; }

  // Runs the main function; `args` in the order of its parameters, aligned to 64 bytes. Throws
  // KernelError when the function reports a failure.
  void launch(void* const* args, const int64_t* dims, const tw_context& context) const {
    require_success(main_(args, dims, &context));
  }
  void require_success(int32_t status) const {
    if (status != 0) fail(status);
  }
  // Runs packing function `index`: `args` in the order of its parameters, the weights that it reads
  // and what it fills.
  void pack(size_t index, void* const* args, const tw_context& context) const;

  tw_kernel_fn main_function() const { return main_; }
  tw_kernel_fn pack_function(size_t index) const;

 private:
  tw_kernel_fn resolve(std::string_view object, const std::string& symbol) const;
  [[noreturn]] void fail(int32_t status) const;

  KernelDescription description_;
  std::optional<PlacedObject> placed_;
  std::unique_ptr<void, void (*)(void*)> handle_;  // null where it is placed
  tw_kernel_fn main_ = nullptr;
  std::vector<tw_kernel_fn> packs_;
};

// Bytes of workspace that `function` needs on `threads` threads.
int64_t workspace_bytes(const KernelFunction& function, int threads);

// The parameter's shape with dynamic extents taken from `dims`. Throws KernelError when `dims` is
// too short.
std::vector<int64_t> concrete_shape(const KernelParam& param, const std::vector<int64_t>& dims);

// A context of one thread: parallel_for runs its body at once in the calling thread.
tw_context serial_context(void* workspace = nullptr);

// Memory for a kernel's workspace, aligned to 64 bytes.
class Workspace {
 public:
  explicit Workspace(int64_t bytes = 0);
  ~Workspace();
  Workspace(Workspace&& other) noexcept;
  Workspace& operator=(Workspace&& other) noexcept;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tilewright
