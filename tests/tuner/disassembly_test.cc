// The machine code of the golden kernels: they compile, and cubin_facts() counts the instructions
// that NVIDIA's disassembler sees. Skipped without NVRTC or nvdisasm; no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/tuner/golden_kernels.h"
#include "tests/tuner/machine_code.h"

namespace tilewright {
namespace {

using Counts = std::map<std::string, int>;

// Instructions that tests of kernels count, whether a kernel has them or not.
constexpr const char* kCounted[] = {
    "HMMA",  "HMMA.SP", "IMMA", "IMMA.SP", "QMMA", "BMMA",    "HGMMA",  "HGMMA.SP",  "IGMMA",
    "QGMMA", "IDP",     "LDSM", "STSM",    "LDG",  "STG",     "LDGSTS", "LDL",       "STL",
    "SHFL",  "UTMALDG", "BAR",  "UTMASTG", "LOP3", "UCGABAR", "UBLKCP", "USETMAXREG"};

// The mnemonics, and the forms of them that cubin_facts() tells apart.
Counts mnemonics_of(const std::string& text) {
  static const std::regex line(R"(/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)((?:\.\w+)*))");
  Counts counts;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    std::string name = (*at)[1];
    if (name.starts_with("UCGABAR_")) name = "UCGABAR";
    const std::string forms = (*at)[2].str() + ".";
    for (const char* form : {".SP", ".IM2COL", ".MULTICAST"}) {
      if (forms.find(std::string(form) + ".") != std::string::npos) name += form;
    }
    ++counts[name];
  }
  return counts;
}

class Disassembly : public ::testing::TestWithParam<GoldenKernel> {};

TEST_P(Disassembly, HasTheInstructionsThatAreCounted) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (nvdisasm().empty()) GTEST_SKIP() << "no nvdisasm";
  const GoldenKernel& k = GetParam();
  const std::string arch = k.target.name.substr(k.target.name.find(':') + 1);
  if (!cuda::nvrtc_accepts(arch)) GTEST_SKIP() << "this NVRTC knows no " << arch;
  const CudaSource source =
      generate_cuda(golden_schedule(k, parse_workload(k.spec)).module(), k.target);
  const std::string cubin = cubin_of(source.text, arch).bytes;
  Counts counted;
  for (const CudaLaunch& launch : source.launches) {
    for (const auto& [name, count] : cuda::cubin_facts(cubin, launch.entry).instructions) {
      counted[name] += count;
    }
  }
  Counts seen = mnemonics_of(disassembly(cubin));
  EXPECT_GT(seen["EXIT"], 0) << "nothing was disassembled";
  for (const char* name : kCounted) {
    EXPECT_EQ(counted[name], seen[name]) << name;
    counted.erase(name);
  }
  for (const auto& [name, count] : counted) EXPECT_EQ(count, seen[name]) << name;
}

std::string name_of_disassembled(const ::testing::TestParamInfo<GoldenKernel>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Families, Disassembly, ::testing::ValuesIn(golden_gpu_kernels()),
                         name_of_disassembled);

}  // namespace
}  // namespace tilewright
