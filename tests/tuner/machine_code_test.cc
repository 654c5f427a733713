// Rules that the machine code of the golden kernels keeps, which no emulation sees: what ptxas puts
// around barriers, registers of roles, and instructions per matrix product. Each case prints its
// counts. Skipped without NVRTC or nvdisasm; no GPU is needed.
#include "tests/tuner/machine_code.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/runtime/support.h"
#include "tests/tuner/golden_kernels.h"

namespace tilewright {
namespace {

using testing::IsEmpty;

// A barrier of the memory of all the GPU, or more.
bool is_wide_barrier(const MachineInstruction& i) {
  return i.name == "MEMBAR" &&
         (i.text.find(".GPU") != std::string::npos || i.text.find(".SYS") != std::string::npos);
}

bool waits_for_group(const MachineInstruction& i) { return i.text.starts_with("WARPGROUP.DEPBAR"); }

int occurrences(const std::string& text, const std::string& what) {
  int found = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Bounds on the main loop of each kernel: all instructions, and those that move a register to a
// uniform one.
const nlohmann::json& bounds() {
  static const nlohmann::json read = [] {
    std::ifstream in(test::source_dir() / "tests" / "tuner" / "main_loops.json");
    return nlohmann::json::parse(in);
  }();
  return read;
}

struct Compiled {
  std::map<std::string, MachineCode> functions;
  std::string ptx, log;
};

Compiled compiled(const GoldenKernel& k) {
  const std::string arch = k.target.name.substr(k.target.name.find(':') + 1);
  const std::string text =
      generate_cuda(golden_schedule(k, parse_workload(k.spec)).module(), k.target).text;
  Compiled result;
  const Cubin cubin = cubin_of(text, arch);
  result.functions = machine_code_of(disassembly(cubin.bytes));
  result.log = cubin.log;
  result.ptx = cuda::compile_to_ptx(text, "kernel", arch);
  return result;
}

// The function of the kernel with the longest main loop of matrix instructions.
const MachineCode& main_function(const Compiled& c) {
  return std::max_element(c.functions.begin(), c.functions.end(),
                          [](const auto& a, const auto& b) {
                            auto rank = [](const MachineCode& m) {
                              return std::pair{m.count(multiplies_matrices), m.main_loop_size()};
                            };
                            return rank(a.second) < rank(b.second);
                          })
      ->second;
}

class GoldenMachineCode : public ::testing::TestWithParam<GoldenKernel> {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
    if (nvdisasm().empty()) GTEST_SKIP() << "no nvdisasm";
    const std::string& target = GetParam().target.name;
    const std::string arch = target.substr(target.find(':') + 1);
    if (!cuda::nvrtc_accepts(arch)) GTEST_SKIP() << "this NVRTC knows no " << arch;
  }
};

TEST_P(GoldenMachineCode, KeepsTheRules) {
  const GoldenKernel& k = GetParam();
  const Compiled c = compiled(k);
  ASSERT_FALSE(c.functions.empty()) << "nothing was disassembled";
  EXPECT_THAT(cuda::performance_warnings(c.log), IsEmpty());
  int waits = 0;
  for (const auto& [name, code] : c.functions) {
    SCOPED_TRACE(name);
    ASSERT_GT(code.count(named("EXIT")), 0);
    EXPECT_EQ(code.count_in_loops(is_wide_barrier), 0);
    EXPECT_EQ(code.count_in_loops(named("CCTL")), 0);
    EXPECT_EQ(code.count(named("LDL")) + code.count(named("STL")), 0) << "local memory";
    for (const MachineCode::RegisterWindow& window : code.register_windows()) {
      EXPECT_LT(window.largest, window.limit);
    }
    waits += code.count(waits_for_group);
  }
  // There are more if ptxas serializes wgmma.
  EXPECT_EQ(waits, occurrences(c.ptx, "wgmma.wait_group"));
  const MachineCode& code = main_function(c);
  const int products = code.count_in_main_loop(multiplies_matrices), size = code.main_loop_size();
  const int uniform = code.count_in_main_loop(named("R2UR"));
  fmt::print(
      "{}: MEMBAR {} (of the GPU in loops {}), CCTL {}; main loop: {} instructions, {} MMA, "
      "{} R2UR, {} BAR\n",
      k.name, code.count(named("MEMBAR")), code.count_in_loops(is_wide_barrier),
      code.count(named("CCTL")), size, products, uniform, code.count_in_main_loop(named("BAR")));
  const nlohmann::json bound = bounds().value(k.name, nlohmann::json{});
  ASSERT_TRUE(bound.is_object()) << "has no bounds in main_loops.json";
  EXPECT_LE(size, bound.at("instructions").get<int>());
  EXPECT_LE(uniform, bound.at("r2ur").get<int>());
}

// Kernels with roles keep their register windows, and their products run on, also under the watchdog with
// which a device meets them first.
TEST(GoldenMachineCodeUnderAWatchdog, KeepsRegisterWindows) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (nvdisasm().empty()) GTEST_SKIP() << "no nvdisasm";
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  test::ScopedEnv watchdog("TILEWRIGHT_CUDA_WATCHDOG", "2000");
  int tried = 0;
  for (const GoldenKernel& k : golden_gpu_kernels()) {
    if (k.family != "hopper" || k.config.find("\"roles\"") == std::string::npos) continue;
    ++tried;
    SCOPED_TRACE(k.name);
    std::string log;
    const std::string text =
        generate_cuda(golden_schedule(k, parse_workload(k.spec)).module(), k.target).text;
    const std::string cubin = cuda::compile_to_cubin(text, "kernel", "sm_90a", &log);
    EXPECT_THAT(cuda::performance_warnings(log), IsEmpty());
    for (const auto& [name, code] : machine_code_of(disassembly(cubin))) {
      for (const MachineCode::RegisterWindow& window : code.register_windows()) {
        EXPECT_LT(window.largest, window.limit);
      }
    }
  }
  EXPECT_GE(tried, 7);
}

std::string name_of_code(const ::testing::TestParamInfo<GoldenKernel>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Families, GoldenMachineCode, ::testing::ValuesIn(golden_gpu_kernels()),
                         name_of_code);

constexpr const char* kCode = R"(
.text.kernel:
        /*0000*/                   MOV R9, RZ ;
.L_x_0:
        /*0010*/                   MEMBAR.ALL.GPU ;
        /*0020*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
.L_x_1:
        /*0030*/              @!P0 BRA `(.L_x_1) ;
        /*0040*/               @P1 BRA `(.L_x_0) ;
        /*0050*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0x28 ;
        /*0060*/                   MEMBAR.ALL.GPU ;
        /*0070*/                   STG.E desc[UR4][R40.64], R3 ;
        /*0080*/                   EXIT ;
)";

TEST(MachineCodeOf, FindsLoopsAndWindows) {
  const auto functions = machine_code_of(kCode);
  ASSERT_EQ(functions.count("kernel"), 1u);
  const MachineCode& code = functions.at("kernel");
  EXPECT_EQ(code.instructions().size(), 9u);
  EXPECT_EQ(code.count(is_wide_barrier), 2);
  EXPECT_EQ(code.count_in_loops(is_wide_barrier), 1);
  EXPECT_EQ(code.main_loop_size(), 4);
  EXPECT_EQ(code.count_in_main_loop(multiplies_matrices), 1);
  ASSERT_EQ(code.register_windows().size(), 1u);
  EXPECT_EQ(code.register_windows()[0].limit, 40);
  EXPECT_EQ(code.register_windows()[0].largest, 40) << "one more than there are";
}

// The compiler's warning is read although it accepts the kernel.
TEST(Nvrtc, TellsOfProductsThatWaitForEachOther) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  const std::string before = R"(
extern "C" __global__ void __launch_bounds__(128) kernel(TW_OUT(float) C) {
  TW_SHARED(tw_f16, A, 0, 4096);
  TW_SHARED(tw_f16, B, 8192, 4096);
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 0.0f;
  for (int n = 0; n < 8; ++n) {
    tw_wgmma_fence();
    tw_wgmma_m64n64k16_f32_f16<0, 0>(d, tw_wgmma_operand<128>(A, 16, 1024, 0),
                                     tw_wgmma_operand<128>(B, 16, 1024, 0), 1);
    tw_wgmma_commit();
)",
                    touch = "    for (int i = 0; i < 32; ++i) d[i] *= 2.0f;\n", after = R"(
    tw_wgmma_wait<0>();
  }
  for (int i = 0; i < 32; ++i) C[threadIdx.x * 32 + i] = d[i];
}
)";
  std::string log;
  cuda::compile_to_cubin(before + after, "kernel", "sm_90a", &log);
  EXPECT_THAT(cuda::performance_warnings(log), IsEmpty()) << log;
  cuda::compile_to_cubin(before + touch + after, "kernel", "sm_90a", &log);
  EXPECT_FALSE(cuda::performance_warnings(log).empty()) << log;
}

}  // namespace
}  // namespace tilewright
