#include "runtime/load/loader.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>

#include "base/files.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

// A path to the descriptor that no earlier load has used: the loader takes a known name for a known
// object, and descriptor numbers come back. "/" and "/." spell the number of this load in binary.
std::string unique_path(int fd) {
  static std::atomic<uint64_t> loads{1};
  std::string path = "/proc/self/fd";
  for (uint64_t n = loads.fetch_add(1); n != 0; n >>= 1) path += n & 1 ? "/." : "/";
  return path + "/" + std::to_string(fd);
}

}  // namespace

void* load_shared_object(std::string_view object, ObjectKind kind) {
  if (std::string problem = object_problem(object, kind); !problem.empty()) {
    throw KernelError("cannot load a kernel: " + problem);
  }
  UniqueFd file = anonymous_file("tilewright-kernel");
  if (!write_all(file.get(), object)) throw KernelError("cannot load a kernel: out of memory");
  void* handle = dlopen(unique_path(file.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw KernelError(std::string("cannot load a kernel: ") + dlerror());
  return handle;
}

void* symbol_of(void* handle, const std::string& name) {
  void* address = dlsym(handle, name.c_str());
  Dl_info found{};
  link_map *own = nullptr, *holder = nullptr;
  if (address == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &own) != 0 ||
      dladdr1(address, &found, reinterpret_cast<void**>(&holder), RTLD_DL_LINKMAP) == 0) {
    return nullptr;
  }
  return holder == own ? address : nullptr;
}

}  // namespace tilewright
