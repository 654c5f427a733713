#include "kernel/cpu_features.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "base/knobs.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace tilewright {
namespace {

#if defined(__x86_64__)

enum Register : uint8_t { eax, ebx, ecx, edx };

// State that the operating system must save at a task switch (bits of XCR0).
constexpr uint64_t kNoState = 0;
constexpr uint64_t kAvxState = 0x6;      // XMM and YMM
constexpr uint64_t kAvx512State = 0xe6;  // plus opmasks and ZMM
constexpr uint64_t kAmxState = 0x60000;  // tile configuration and data

// One cpuid bit per feature (Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix D).
struct Feature {
  const char* name;
  uint32_t leaf, subleaf;
  Register reg;
  int bit;
  uint64_t state;
};

constexpr std::array kFeatures = {
    Feature{"sse3", 1, 0, ecx, 0, kNoState},
    Feature{"ssse3", 1, 0, ecx, 9, kNoState},
    Feature{"sse4.1", 1, 0, ecx, 19, kNoState},
    Feature{"sse4.2", 1, 0, ecx, 20, kNoState},
    Feature{"popcnt", 1, 0, ecx, 23, kNoState},
    Feature{"avx", 1, 0, ecx, 28, kAvxState},
    Feature{"f16c", 1, 0, ecx, 29, kAvxState},
    Feature{"fma", 1, 0, ecx, 12, kAvxState},
    Feature{"avx2", 7, 0, ebx, 5, kAvxState},
    Feature{"bmi", 7, 0, ebx, 3, kNoState},
    Feature{"bmi2", 7, 0, ebx, 8, kNoState},
    Feature{"gfni", 7, 0, ecx, 8, kNoState},
    Feature{"avxvnni", 7, 1, eax, 4, kAvxState},
    Feature{"avxifma", 7, 1, eax, 23, kAvxState},
    Feature{"avxvnniint8", 7, 1, edx, 4, kAvxState},
    Feature{"avx512f", 7, 0, ebx, 16, kAvx512State},
    Feature{"avx512dq", 7, 0, ebx, 17, kAvx512State},
    Feature{"avx512ifma", 7, 0, ebx, 21, kAvx512State},
    Feature{"avx512cd", 7, 0, ebx, 28, kAvx512State},
    Feature{"avx512bw", 7, 0, ebx, 30, kAvx512State},
    Feature{"avx512vl", 7, 0, ebx, 31, kAvx512State},
    Feature{"avx512vbmi", 7, 0, ecx, 1, kAvx512State},
    Feature{"avx512vbmi2", 7, 0, ecx, 6, kAvx512State},
    Feature{"avx512vnni", 7, 0, ecx, 11, kAvx512State},
    Feature{"avx512bitalg", 7, 0, ecx, 12, kAvx512State},
    Feature{"avx512vpopcntdq", 7, 0, ecx, 14, kAvx512State},
    Feature{"avx512bf16", 7, 1, eax, 5, kAvx512State},
    Feature{"avx512fp16", 7, 0, edx, 23, kAvx512State},
    Feature{"amx-tile", 7, 0, edx, 24, kAmxState},
    Feature{"amx-bf16", 7, 0, edx, 22, kAmxState},
    Feature{"amx-int8", 7, 0, edx, 25, kAmxState},
};

using Registers = std::array<uint32_t, 4>;

// Zeros for a leaf or subleaf that the processor does not have.
Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r{};
  if (static_cast<uint32_t>(__get_cpuid_max(leaf & 0x80000000u, nullptr)) < leaf) return r;
  if (leaf == 7 && subleaf > 0) {
    __cpuid_count(7, 0, r[0], r[1], r[2], r[3]);
    if (r[eax] < subleaf) return {};
  }
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  return r;
}

// The states that the operating system saves; 0 where it does not use XSAVE.
uint64_t enabled_state() {
  constexpr int kOsXsave = 27;
  if ((cpuid(1, 0)[ecx] >> kOsXsave & 1) == 0) return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// AMX tiles need the kernel's permission, which then holds for all threads (Linux, arch/x86,
// xstate).
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::set<std::string> detect() {
  std::set<std::string> features;
  uint64_t state = enabled_state();
  if ((state & kAmxState) == kAmxState && !may_use_tiles()) state &= ~kAmxState;
  for (const Feature& f : kFeatures) {
    bool enabled = (state & f.state) == f.state;
    if (enabled && (cpuid(f.leaf, f.subleaf)[f.reg] >> f.bit & 1)) features.insert(f.name);
  }
  return features;
}

std::string brand() {
  std::string text;
  for (uint32_t leaf : {0x80000002u, 0x80000003u, 0x80000004u}) {
    Registers r = cpuid(leaf, 0);
    text.append(reinterpret_cast<const char*>(r.data()), sizeof r);
  }
  text.resize(std::strlen(text.c_str()));
  size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == std::string::npos ? "x86-64" : text.substr(begin, end - begin + 1);
}

std::string signature() {
  Registers vendor = cpuid(0, 0);
  std::string name;
  for (Register r : {ebx, edx, ecx}) {
    name.append(reinterpret_cast<const char*>(&vendor[r]), sizeof vendor[r]);
  }
  uint32_t id = cpuid(1, 0)[eax];
  uint32_t family = id >> 8 & 15, model = id >> 4 & 15, stepping = id & 15;
  if (family == 6 || family == 15) model |= (id >> 16 & 15) << 4;
  if (family == 15) family += id >> 20 & 255;
  return name + "-" + std::to_string(family) + "-" + std::to_string(model) + "-" +
         std::to_string(stepping);
}

std::vector<std::string> feature_names() {
  std::vector<std::string> names;
  for (const Feature& f : kFeatures) names.push_back(f.name);
  return names;
}

#else

#if defined(__aarch64__)
constexpr const char* kArchitecture = "aarch64";
#else
constexpr const char* kArchitecture = "generic";
#endif

std::set<std::string> detect() { return {}; }
std::string brand() { return kArchitecture; }
std::string signature() { return kArchitecture; }
std::vector<std::string> feature_names() { return {}; }

#endif

// Says that an entry of the list hides nothing. Only where features are known.
void warn_of_hidden(const std::string& name) {
  const std::vector<std::string>& known = known_cpu_features();
  if (known.empty()) return;
  std::string names;
  for (const std::string& feature : known) names += (names.empty() ? "" : ", ") + feature;
  warn_of_knob(Knob::CpuWithout,
               "'" + name +
                   "' begins no feature's name and hides nothing; expected names or "
                   "their beginnings, separated by ',', of " +
                   names);
}

// The features except those whose names begin with an entry of the comma-separated `list`.
std::set<std::string> without(std::set<std::string> features, const std::string& list) {
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) {
    if (name.empty()) continue;
    if (std::ranges::none_of(known_cpu_features(),
                             [&](const std::string& f) { return f.starts_with(name); })) {
      warn_of_hidden(name);
    }
    std::erase_if(features, [&](const std::string& f) { return f.starts_with(name); });
  }
  return features;
}

}  // namespace

const std::set<std::string>& cpu_features() {
  static const std::set<std::string> features = without(detect(), knob_text(Knob::CpuWithout));
  return features;
}

const std::vector<std::string>& known_cpu_features() {
  static const std::vector<std::string> names = feature_names();
  return names;
}

const std::string& cpu_name() {
  static const std::string name = brand();
  return name;
}

const std::string& cpu_signature() {
  static const std::string text = signature();
  return text;
}

}  // namespace tilewright
