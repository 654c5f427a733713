// The asynchronous side of sm_90a as machine code. Skipped where there is no NVRTC; no GPU is needed.
#include <gtest/gtest.h>

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/kernels/async_kernels.h"

namespace tilewright {
namespace {

class NvrtcAsync : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << cuda::nvrtc_problem();
    if (!cuda::nvrtc_accepts("sm_90a")) GTEST_SKIP() << "this NVRTC knows no sm_90a";
  }
  cuda::CubinFacts facts(const std::string& text, const std::string& name) {
    return cuda::cubin_facts(cuda::compile_to_cubin(text, name, "sm_90a"), name);
  }
};

TEST_F(NvrtcAsync, APipelineLoadsAndStoresByTensorCopies) {
  cuda::CubinFacts pipeline = facts(test::kTensorPipeline, "pipeline");
  EXPECT_GE(pipeline.count("UTMALDG"), 2);  // more where the loop is unrolled
  EXPECT_EQ(pipeline.count("UTMASTG"), 1);
  EXPECT_GE(pipeline.count("SYNCS"), 6 + 2 + 2);
  EXPECT_GE(pipeline.count("HMMA"), 16);
  EXPECT_EQ(pipeline.count("LDGSTS"), 0);
  EXPECT_EQ(pipeline.local_accesses(), 0);
}

TEST_F(NvrtcAsync, EveryFunctionIsAnInstruction) {
  std::string copies;
  for (int rank = 1; rank <= 5; ++rank) {
    std::string at;
    for (int d = 0; d < rank; ++d) at += ", n + " + std::to_string(d);
    const std::string name = std::to_string(rank) + "d(";
    copies += "    tw_tensor_load_" + name + "s, A" + at + ", b);\n";
    copies += "    tw_tensor_store_" + name + "A" + at + ", s);\n";
    for (int x = 0; x + 2 < rank; ++x) at += ", n - " + std::to_string(x);
    if (rank < 3) continue;
    copies += "    tw_tensor_im2col_" + name + "s, A" + at + ", b);\n";
    copies += "    tw_tensor_im2col_multicast_" + name + "s, A" + at + ", b, n);\n";
  }
  cuda::CubinFacts all = facts(
      "extern \"C\" __global__ void __launch_bounds__(384, 1)\n"
      "    all(TW_TENSOR_MAP A, TW_INOUT(float) C, int n) {\n"
      "  TW_SHARED(float, s, 0, 1024);\n  TW_SHARED(unsigned long long, b, 4096, 1);\n"
      "  if (threadIdx.x == 0) {\n    tw_mbarrier_init(b, 1);\n    tw_mbarrier_fence_init();\n"
      "    tw_mbarrier_arrive(b);\n    tw_mbarrier_expect_tx(b, n);\n"
      "    tw_mbarrier_arrive_expect_tx(b, n);\n    tw_tensor_prefetch(A);\n" +
          copies +
          "    tw_bulk_load(s, C, n, b);\n    tw_fence_async();\n    tw_bulk_store(C, s, n);\n"
          "    tw_bulk_commit();\n    tw_bulk_wait_read<1>();\n    tw_bulk_wait<0>();\n"
          "    tw_mbarrier_wait(b, n & 1);\n    tw_mbarrier_invalidate(b);\n  }\n"
          "  if (threadIdx.x < 128) tw_registers_lower<40>(); else tw_registers_raise<232>();\n"
          "  if (threadIdx.x < 256) tw_barrier_sync(1, 384); else tw_barrier_arrive(1, 384);\n"
          "  C[threadIdx.x] = s[threadIdx.x];\n}\n",
      "all");
  EXPECT_EQ(all.count("UTMALDG"), 5);
  EXPECT_EQ(all.count("UTMALDG.IM2COL"), 3);
  EXPECT_EQ(all.count("UTMALDG.IM2COL.MULTICAST"), 3);
  EXPECT_EQ(all.count("UTMASTG"), 5);
  EXPECT_EQ(all.count("UBLKCP"), 2);
  EXPECT_EQ(all.count("USETMAXREG"), 2);
  EXPECT_GE(all.count("SYNCS"), 5);
  EXPECT_EQ(all.count("BAR"), 2);
}

}  // namespace
}  // namespace tilewright
