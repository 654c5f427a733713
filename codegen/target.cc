#include "codegen/target.h"

#include <fmt/format.h>
#include <unistd.h>

#include "ir/error.h"

namespace tilewright {
namespace {

Target avx512() {
  Target t;
  t.name = "avx512";
  t.vector_bits = 512;
  t.vector_registers = 32;
  t.features = {"avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"};
  t.flags = {"-mavx2",     "-mfma",      "-mf16c",
             "-mavx512f",  "-mavx512bw", "-mavx512dq",
             "-mavx512vl", "-mavx512cd", "-mprefer-vector-width=512"};
  return t;
}

Target avx2() {
  Target t;
  t.name = "avx2";
  t.vector_bits = 256;
  t.features = {"avx", "avx2", "fma", "f16c"};
  t.flags = {"-mavx2", "-mfma", "-mf16c"};
  return t;
}

Target generic() {
  Target t;
  t.name = "generic";
  return t;
}

int64_t cache_size(int name, int64_t otherwise) {
  long value = sysconf(name);
  return value > 0 ? value : otherwise;
}

// What this machine has: the widest of the named targets that it runs, with its own caches.
Target native() {
  Target t = generic();
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  if (has_avx512) {
    t = avx512();
  } else if (has_avx2) {
    t = avx2();
  }
#endif
  t.l1_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE, t.l1_bytes);
  t.l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE, t.l2_bytes);
  t.l3_bytes = cache_size(_SC_LEVEL3_CACHE_SIZE, t.l3_bytes);
  return t;
}

}  // namespace

std::vector<std::string> Target::names() { return {"native", "avx512", "avx2", "generic"}; }

Target Target::parse(const std::string& name) {
  if (name == "native") return native();
  if (name == "avx512") return avx512();
  if (name == "avx2") return avx2();
  if (name == "generic") return generic();
  throw Error(
      fmt::format("there is no target '{}'; the targets are {}", name, fmt::join(names(), ", ")));
}

}  // namespace tilewright
