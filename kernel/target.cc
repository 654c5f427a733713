#include "kernel/target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

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

// The form of a CUDA target's name: "cuda:sm_90" or "cuda:sm_90a".
bool is_cuda_name(const std::string& name) {
  constexpr std::string_view kPrefix = "cuda:sm_";
  if (!name.starts_with(kPrefix)) return false;
  size_t end = name.find_first_not_of("0123456789", kPrefix.size());
  bool has_digits = name.size() > kPrefix.size() && end != kPrefix.size();
  return has_digits && (end == std::string::npos || name.substr(end) == "a");
}

// This machine: the widest named target that it runs, with its own extensions and caches.
Target native() {
  Target t = Target::widest(cpu_features());
  for (const char* name :
       {"avx512vnni", "avx512bf16", "avx512vbmi", "avxvnni", "amx-tile", "amx-bf16", "amx-int8"}) {
    if (t.vector_bits >= 256 && cpu_features().count(name)) t.extensions.insert(name);
  }
  t.l1_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE, t.l1_bytes);
  t.l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE, t.l2_bytes);
  t.l3_bytes = cache_size(_SC_LEVEL3_CACHE_SIZE, t.l3_bytes);
  return t;
}

// A target whose intrinsics may use more features: "avx512+amx-tile+amx-bf16".
Target with_extensions(const std::string& name) {
  const size_t first = name.find('+');
  Target t = Target::parse(name.substr(0, first));
  const std::vector<std::string>& known = known_cpu_features();
  for (size_t at = first; at != std::string::npos;) {
    const size_t next = name.find('+', at + 1);
    std::string feature = name.substr(at + 1, next == std::string::npos ? next : next - at - 1);
    if (t.is_cuda() || !std::count(known.begin(), known.end(), feature)) {
      throw TargetError(
          fmt::format("'{}': target '{}' takes no feature '{}'; those of processors are {}", name,
                      t.name, feature, fmt::join(known, ", ")),
          false);
    }
    t.extensions.insert(feature);
    at = next;
  }
  t.name = name;
  return t;
}

}  // namespace

std::vector<std::string> Target::names() {
  std::vector<std::string> names = {"native", "avx512", "avx2", "generic"};
  for (const Target& t : cuda_targets()) names.push_back(t.name);
  return names;
}

std::vector<std::string> Target::missing_features(const std::set<std::string>& available) const {
  if (is_cuda()) return {"cuda"};
  std::set<std::string> needed = features;
  needed.insert(extensions.begin(), extensions.end());
  const std::vector<std::string>& known = known_cpu_features();
  for (const std::string& flag : flags) {  // the compiler may use these on its own
    std::string name = flag.substr(2);
    if (std::count(known.begin(), known.end(), name) != 0) needed.insert(name);
  }
  std::vector<std::string> missing;
  std::set_difference(needed.begin(), needed.end(), available.begin(), available.end(),
                      std::back_inserter(missing));
  return missing;
}

void Target::require_here() const {
  if (is_cuda()) {
    throw TargetError(
        fmt::format("kernels of target '{}' do not run here: this build runs kernels on CPUs; "
                    "show --default --source prints the CUDA code",
                    name),
        true);
  }
  std::vector<std::string> missing = missing_features();
  if (missing.empty()) return;
  throw TargetError(
      fmt::format("kernels of target '{}' do not run on this machine, which lacks {}; "
                  "the widest that does is {}",
                  name, fmt::join(missing, ", "), widest(cpu_features()).name),
      true);
}

Target Target::widest(const std::set<std::string>& available) {
  for (Target t : {avx512(), avx2()}) {
    if (t.missing_features(available).empty()) return t;
  }
  return generic();
}

Target Target::parse(const std::string& name) {
  if (name.find('+') != std::string::npos) return with_extensions(name);
  if (name == "native") return native();
  if (name == "avx512") return avx512();
  if (name == "avx2") return avx2();
  if (name == "generic") return generic();
  for (const Target& t : cuda_targets()) {
    if (name == t.name) return t;
  }
  std::vector<std::string> chips;
  for (const CudaChip& chip : cuda_chips()) {
    if (name == chip.name) return chip.target;
    chips.push_back(chip.name);
  }
  std::string known = fmt::format("the targets are {}, and by the data sheets of further chips {}",
                                  fmt::join(names(), ", "), fmt::join(chips, ", "));
  if (is_cuda_name(name)) {
    throw TargetError(fmt::format("'{}': nothing is known of this architecture; {}", name, known),
                      true);
  }
  throw TargetError(fmt::format("there is no target '{}'; {}", name, known), false);
}

}  // namespace tilewright
