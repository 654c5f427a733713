// tune-cli run and bench for CUDA targets: in the emulator, and on a stand-in for a GPU.
#include <gmock/gmock.h>

#include "runtime/cuda/nvrtc.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/fake_gpu.h"
#include "tests/runtime/cuda/fake_libraries.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kRunSm80 = "--target cuda:sm_80 ";

class GpuRunCommand : public FakeGpu {
 protected:
  // Small whole numbers, so that every order of summation gives the same.
  static double value(int64_t i) { return static_cast<double>(i * 7 % 11 - 5); }

  void write(const std::string& file, const std::vector<int64_t>& shape) {
    HostArray array(file, ElemType::f32, shape);
    for (int64_t i = 0; i < array.count(); ++i) array.set(i, value(i));
    write_npy(dir_ / file, array);
  }
};

TEST_F(GpuRunCommand, TheEmulatorComputesTheProductWithoutAGpu) {
  write("a.npy", {33, 40});
  write("b.npy", {40, 24});
  Ran ran =
      run("run matmul:m=33,n=24,k=40,dtype=f16 --target cuda:sm_80 --json --default "
          "--emulate --in A=a.npy --in B=b.npy --out C=c.npy",
          std::string(kNoGpu) + " TILEWRIGHT_CUDA=off");
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json said = ran.json();
  EXPECT_EQ(said["out"], "c.npy");
  EXPECT_EQ(said["emulated"], true);
  EXPECT_GT(said["counters"]["global_stores"], 0);
  EXPECT_EQ(said["counters"]["bank_conflicts"],
            said["counters"]["shared_passes"].get<int64_t>() -
                said["counters"]["shared_passes_ideal"].get<int64_t>());
  NpyArray c = read_npy(dir_ / "c.npy");
  ASSERT_EQ(c.shape, (std::vector<int64_t>{33, 24}));
  for (int64_t i = 0; i < 33; ++i) {
    for (int64_t j = 0; j < 24; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 40; ++k) sum += value(i * 40 + k) * value(k * 24 + j);
      ASSERT_EQ(c.get(i * 24 + j), sum) << i << ", " << j;
    }
  }
}

// The weights of a stored kernel are packed by what was compiled when it was chosen.
TEST_F(GpuRunCommand, AStoredKernelWithAPackedWeightNeedsNoCompilerOfC) {
  if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  const std::string spec =
      "'matmul:m=16,n=64,k=128,dtype=f16,w.dtype=u4,w.group=32,w.scale=f16' --target cuda:sm_80 ";
  ASSERT_EQ(run("tune --offline --quiet --trials 24 " + spec, kNoGpu).code, 0);
  write("a.npy", {16, 128});
  HostArray q("q", ElemType::u8, {128, 64}), scale("s", ElemType::f32, {4, 64});
  for (int64_t i = 0; i < q.count(); ++i) q.set(i, static_cast<double>(i * 5 % 4));
  for (int64_t i = 0; i < scale.count(); ++i) scale.set(i, i % 2 ? 1 : 0.5);
  write_npy(dir_ / "q.npy", q);
  write_npy(dir_ / "s.npy", scale);
  Ran ran = run(
      "run " + spec + "--emulate --json --in A=a.npy --in B=q.npy --in B.scale=s.npy --out C=c.npy",
      std::string(kNoGpu) + " TILEWRIGHT_CC=/no/such/cc TILEWRIGHT_CUDA=off");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["predicted"], true);
  NpyArray c = read_npy(dir_ / "c.npy");
  for (int64_t i = 0; i < 16; ++i) {
    for (int64_t j = 0; j < 64; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 128; ++k) {
        sum += value(i * 128 + k) * q.get(k * 64 + j) * scale.get(k / 32 * 64 + j);
      }
      ASSERT_EQ(c.get(i * 64 + j), sum) << i << ", " << j;
    }
  }
}

TEST_F(GpuRunCommand, TheEmulatorIsForCudaTargets) {
  Ran ran = run("run --default --emulate --out C=c.npy matmul:m=3,n=2,k=4");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--emulate: expected a CUDA target such as cuda:sm_80, got "
                                 "'native'"));
}

TEST_F(GpuRunCommand, WithoutAGpuItSaysWhyAndWhatCanBeDone) {
  for (const char* command : {"run --out C=c.npy ", "bench "}) {
    Ran ran = run(std::string(command) + kRunSm80 + kSmall, kNoGpu);
    EXPECT_EQ(ran.code, 4) << command;
    EXPECT_THAT(ran.err, HasSubstr("kernels of target 'cuda:sm_80' do not run here: no GPU"));
    EXPECT_THAT(ran.err, HasSubstr("run --emulate")) << command;
  }
}

TEST_F(GpuRunCommand, AStoredKernelRunsOnTheDevice) {
  const std::string spec = "elementwise:shape=64,fn=relu";
  store_kernel(spec, "tw_relu");
  write("x.npy", {64});
  const std::string words =
      "run " + spec + " --target cuda:sm_80 --json --in X=x.npy --out Y=y.npy";
  Ran ran = run(words, driver());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["emulated"], false);
  EXPECT_EQ(ran.json()["predicted"], false);
  NpyArray y = read_npy(dir_ / "y.npy");
  for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(y.get(i), std::max(value(i), 0.0)) << i;
  fs::remove(dir_ / "y.npy");
  for (auto [how, why] : {std::pair("fault", "CUDA_ERROR_ILLEGAL_ADDRESS"),
                          std::pair("beside", "the kernel writes beside its output 'Y'"),
                          std::pair("partial", "Y[5] was not written")}) {
    ran = run(words, driver() + " FAKE_CUDA_KERNEL=" + how);
    EXPECT_EQ(ran.code, 3) << how;
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_TRUE(ran.json()["out"].is_null());
    EXPECT_FALSE(fs::exists(dir_ / "y.npy"));
  }
}

TEST_F(GpuRunCommand, WithoutAKernelItExitsWithSeven) {
  store_kernel("elementwise:shape=64,fn=relu", "tw_relu");
  write("x.npy", {32});
  Ran ran = run("run elementwise:shape=32,fn=relu --target cuda:sm_80 --in X=x.npy --out Y=y.npy",
                driver());
  EXPECT_EQ(ran.code, 7) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("--default runs the untuned kernel"));
}

class GpuBenchCommand : public FakeGpu {
 protected:
  void SetUp() override {
    FakeGpu::SetUp();
    make_fake_library(kFakeCublasLt, (dir_ / "libcublasLt.so.13").string());
    store_kernel("matmul:m=8,n=8,k=8", "tw_product");
    store_kernel("elementwise:shape=64,fn=relu", "tw_relu");
  }
  Ran bench(const std::string& words, const std::string& environment = "") {
    return run(
        "bench --rounds 2 " + words + " " + kRunSm80,
        driver() + " TILEWRIGHT_CUDA=off TILEWRIGHT_PEERS='" + dir_.string() + "' " + environment);
  }
};

TEST_F(GpuBenchCommand, KernelsAndLibrariesTakeTurnsOnTheDevice) {
  Ran ran = bench("--json matmul:m=8,n=8,k=8 elementwise:shape=64,fn=relu softmax:m=4,n=8");
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json document = ran.json(), rows = document["results"];
  EXPECT_NEAR(rows[0]["seconds"], 1.5e-3, 1e-9) << "the events' time";
  EXPECT_NEAR(rows[0]["peers"]["cublaslt"]["seconds"], 1.5e-3, 1e-9);
  EXPECT_NEAR(rows[0]["ratio"]["cublaslt"], 1, 1e-9);
  EXPECT_EQ(rows[0]["peers"]["cublaslt"]["note"], "the best of 1 algorithm");
  EXPECT_EQ(rows[0]["predicted"], false);
  EXPECT_TRUE(rows[1]["peers"].empty());
  EXPECT_EQ(rows[1]["absent"]["cublaslt"], "it computes products of matrices only");
  EXPECT_TRUE(rows[2].contains("miss"));
  EXPECT_EQ(document["peers"]["cublaslt"], "13.1.2");
  Ran words = bench("matmul:m=8,n=8,k=8");
  EXPECT_THAT(words.out, HasSubstr("1.00x"));
  EXPECT_THAT(words.out, HasSubstr("cublaslt: 13.1.2"));
}

TEST_F(GpuBenchCommand, AWrongKernelHasNoTime) {
  Ran ran = bench("--json elementwise:shape=64,fn=relu", "FAKE_CUDA_KERNEL=wrong");
  EXPECT_EQ(ran.code, 3);
  Json row = ran.json()["results"][0];
  EXPECT_THAT(row["fault"], HasSubstr("Y[7]"));
  EXPECT_FALSE(row.contains("seconds"));
}

TEST_F(GpuBenchCommand, KindsOfKernelsAreTimedEachByItself) {
  const std::string spec = "elementwise:shape=64,fn=relu ";
  store_kernel(spec, "tw_relu", {}, "__cluster_dims__(2, 1, 1) tw_wgmma_m64n64k16_f32_f16");
  store_kernel(spec, "tw_relu", {}, "tw_mma_m16n8k16_f32_f16");
  const std::string line = "bench --kinds --json " + std::string(kRunSm80) + spec;
  const Json kinds = run(line, driver()).json()["results"][0]["kinds"];
  ASSERT_EQ(kinds.size(), 3u) << kinds;
  EXPECT_GT(kinds["clusters"]["seconds"], 0);
  EXPECT_GT(kinds["mma"]["seconds"], 0);
  EXPECT_GT(kinds["threads"]["seconds"], 0) << "the one that every case has";
  EXPECT_THAT(bench("--kinds " + spec).out, HasSubstr("clusters: 1.500 ms"));
  const Ran wrong = run(line, driver() + " FAKE_CUDA_KERNEL=wrong");
  EXPECT_THAT(wrong.json()["results"][0]["kinds"]["mma"]["fault"].get<std::string>(),
              HasSubstr("Y["));
  EXPECT_FALSE(run("bench --json " + std::string(kRunSm80) + spec, driver())
                   .json()["results"][0]
                   .contains("kinds"));
  const Ran cpu = run("bench --kinds --target native " + spec);
  EXPECT_EQ(cpu.code, 2);
  EXPECT_THAT(cpu.err, HasSubstr("--kinds is of a GPU's kernels"));
}

TEST_F(GpuBenchCommand, AWrongLibraryHasNoTime) {
  Json row = bench("--json matmul:m=8,n=8,k=8", "FAKE_CUDA_LIBRARY=wrong").json()["results"][0];
  EXPECT_GT(row["seconds"], 0);
  EXPECT_THAT(row["absent"]["cublaslt"], HasSubstr("its result is another"));
}

}  // namespace
}  // namespace tilewright::cli
