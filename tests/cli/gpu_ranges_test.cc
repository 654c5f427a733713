// Dispatch tables for GPUs that are not here: learnt from the model, and never taken for measured ones.
#include <gmock/gmock.h>

#include "database/store.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/tensor/array.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

const std::string kRangesSpec = "--target cuda:sm_80 matmul:m=1..2048,n=1024,k=512,dtype=f16 ";

class GpuRanges : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    if (!cuda::nvrtc_problem().empty()) GTEST_SKIP() << "NVRTC: " << cuda::nvrtc_problem();
  }
  Json tune(const std::string& spec) {
    Ran tuned = run("tune --offline --json --quiet --trials 12 " + spec, kNoGpu);
    EXPECT_EQ(tuned.code, 0) << tuned.err;
    return tuned.json()["results"][0];
  }
  void write(const std::string& file, const std::vector<int64_t>& shape) {
    HostArray array(file, ElemType::f32, shape);
    for (int64_t i = 0; i < array.count(); ++i) array.set(i, static_cast<double>(i * 7 % 11 - 5));
    write_npy(dir_ / file, array);
  }
  void expect_no_losses(const Json& dispatch);
  void expect_checked_kernels();
  void expect_commands_tell_of(const Json& dispatch);
  void expect_the_kernel_of_the_size(const Json& dispatch);
};

// Also at sizes that were not chosen.
void GpuRanges::expect_no_losses(const Json& dispatch) {
  int held_out = 0;
  for (const Json& point : dispatch["points"]) {
    EXPECT_FALSE(point.contains("seconds"));
    const double own = point["predicted_seconds"], untuned = point["predicted_default_seconds"];
    EXPECT_LE(own, 1.02 * untuned) << point.dump();
    held_out += point["held_out"] ? 1 : 0;
  }
  EXPECT_GT(held_out, 5);
}

void GpuRanges::expect_checked_kernels() {
  using namespace database;
  Store store = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
  ASSERT_EQ(store.dispatch_tables().size(), 1u);
  for (const std::string& id : records_of(store.dispatch_tables()[0])) {
    const Record r = store.record(id).value.value();
    EXPECT_TRUE(r.offline);
    const Artifact kernel = store.artifact(r.artifact_hash).value.value();
    EXPECT_THAT(Json::parse(kernel.description)["emulated"]["instance"], HasSubstr("m=1.."));
  }
}

void GpuRanges::expect_commands_tell_of(const Json& dispatch) {
  const Json best = run("best --json " + kRangesSpec).json()["results"][0]["dispatch"];
  EXPECT_EQ(best["ranges"].size(), dispatch["ranges"].size());
  EXPECT_EQ(best["predicted"], true);
  EXPECT_THAT(run("best " + kRangesSpec).out, HasSubstr("predicted, not measured: "));
  EXPECT_EQ(run("explain --json " + kRangesSpec).json()["results"][0]["dispatch"]["points"],
            dispatch["points"]);
  EXPECT_THAT(run("explain " + kRangesSpec).out, HasSubstr("predicted, not measured: "));
  EXPECT_EQ(run("db check").code, 0);
  ASSERT_EQ(run("db export --serve slim.db").code, 0);
  EXPECT_EQ(
      run("best --json --db slim.db " + kRangesSpec).json()["results"][0]["dispatch"]["points"],
      dispatch["points"]);
}

void GpuRanges::expect_the_kernel_of_the_size(const Json& dispatch) {
  write("a.npy", {3, 512});
  write("b.npy", {512, 1024});
  Ran ran =
      run("run --json --emulate --dim m=3 --in A=a.npy --in B=b.npy --out C=c.npy " + kRangesSpec,
          kNoGpu);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["record"], dispatch["ranges"][0]["record"]);
  EXPECT_EQ(ran.json()["range"]["first"], 1);
  EXPECT_EQ(read_npy(dir_ / "c.npy").shape, (std::vector<int64_t>{3, 1024}));
}

TEST_F(GpuRanges, ATableIsLearntFromTheModelAndShown) {
  const Json dispatch = tune(kRangesSpec)["dispatch"];
  EXPECT_EQ(dispatch["predicted"], true);
  EXPECT_EQ(dispatch["dim"], "m");
  const Json& ranges = dispatch["ranges"];
  ASSERT_GE(ranges.size(), 2u) << dispatch.dump();
  EXPECT_LE(ranges.size(), 8u);
  EXPECT_EQ(ranges.front()["first"], 1);
  EXPECT_EQ(ranges.back()["last"], 2048);
  expect_no_losses(dispatch);
  expect_checked_kernels();
  expect_commands_tell_of(dispatch);
  expect_the_kernel_of_the_size(dispatch);
}

// Nobody knows how tensor cores add up: of two kernels it cannot be told whether they do alike.
TEST_F(GpuRanges, OneOrderIsThatOfOneKernel) {
  const Json dispatch =
      tune("--one-order --target cuda:sm_80 matmul:m=1..256,n=128,k=64,dtype=f16")["dispatch"];
  EXPECT_EQ(dispatch["one_order"], true);
  EXPECT_EQ(dispatch["ranges"].size(), 1u);
  expect_no_losses(dispatch);
}

}  // namespace
}  // namespace tilewright::cli
