#include "kernel/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace tilewright {
namespace {

// The flags that the kernel lists for the first processor; empty elsewhere.
std::set<std::string> kernel_flags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

// The kernel's spelling of a GCC name.
std::string kernel_spelling(std::string name) {
  if (name == "sse3") return "pni";
  if (name == "bmi") return "bmi1";
  if (name == "avxvnni") return "avx_vnni";
  if (name == "avxvnniint8") return "avx_vnni_int8";
  if (name == "avxifma") return "avx_ifma";
  for (const char* tail : {"vnni", "bf16", "fp16", "vbmi2", "bitalg", "vpopcntdq"}) {
    if (name == std::string("avx512") + tail) return std::string("avx512_") + tail;
  }
  std::replace(name.begin(), name.end(), '.', '_');
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TEST(CpuFeatures, AgreeWithTheKernel) {
  std::set<std::string> flags = kernel_flags();
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  for (const std::string& name : known_cpu_features()) {
    EXPECT_EQ(cpu_features().count(name), flags.count(kernel_spelling(name))) << name;
  }
}

TEST(CpuFeatures, AreKnownOnes) {
  const std::vector<std::string>& known = known_cpu_features();
  for (const std::string& name : cpu_features()) {
    EXPECT_NE(std::find(known.begin(), known.end(), name), known.end()) << name;
  }
}

TEST(CpuFeatures, NamesOfTheChipAreClean) {
  EXPECT_FALSE(cpu_name().empty());
  EXPECT_NE(cpu_name().front(), ' ');
  EXPECT_NE(cpu_name().back(), ' ');
  EXPECT_FALSE(cpu_signature().empty());
  EXPECT_EQ(cpu_signature().find(' '), std::string::npos);
  EXPECT_EQ(cpu_signature().find('\0'), std::string::npos);
}

}  // namespace
}  // namespace tilewright
