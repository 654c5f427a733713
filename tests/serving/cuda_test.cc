// Serving kernels for a GPU, through a stand-in for the CUDA driver that keeps "device" memory on the
// host.
#include <dlfcn.h>

#include <cstring>

#include "kernel/cuda_description.h"
#include "runtime/check/weight_packing.h"
#include "tests/serving/cuda_fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(ServingCuda, StartsAKernelOnTheCallersStream) {
  Opened opened(database_with(fake_relu(), "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  auto line = TW_INIT(tw_report);
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK);
  EXPECT_EQ(line.outcome, TW_HIT) << line.reason;
  const tw_kernel* kernel = nullptr;
  ASSERT_EQ(tw_find(prepared, kGpuSpec, &kernel), TW_OK) << tw_last_error();
  auto operand = TW_INIT(tw_operand);
  ASSERT_EQ(tw_operand_at(kernel, 0, &operand), TW_OK);
  EXPECT_EQ(operand.alignment, 256u);

  OnDevice x, y;
  ASSERT_EQ(relu(kernel, x.tensor, y.tensor), TW_OK) << tw_last_error();
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], x[i] > 0 ? x[i] : 0);

  x.tensor.tensor.device = {kDLCPU, 0};
  EXPECT_EQ(relu(kernel, x.tensor, y.tensor), TW_ERROR_TENSOR);
  EXPECT_STREQ(tw_last_error(), "operand 'X': lies on the CPU; expected GPU 0");
  x.tensor.tensor.device = {kDLCUDA, 0};
  x.tensor.tensor.byte_offset += 64;
  EXPECT_EQ(relu(kernel, x.tensor, y.tensor), TW_ERROR_TENSOR);
  EXPECT_THAT(tw_last_error(), HasSubstr("expected 256"));
  tw_release(prepared);
}

// Calls that cannot be captured fail in the stand-in as they do in the driver: a launch makes none.
TEST_F(ServingCuda, CanBeCapturedInAGraph) {
  Opened opened(database_with(fake_relu(), "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  const tw_kernel* kernel = nullptr;
  ASSERT_EQ(tw_find(prepared, kGpuSpec, &kernel), TW_OK) << tw_last_error();
  void* driver = dlopen(path.c_str(), RTLD_NOW);
  auto begin = reinterpret_cast<int (*)(void*, int)>(dlsym(driver, "cuStreamBeginCapture_v2"));
  auto end = reinterpret_cast<int (*)(void*, void**)>(dlsym(driver, "cuStreamEndCapture"));
  OnDevice x, y;
  const float before = y[5];
  ASSERT_EQ(begin(nullptr, 1), 0);
  EXPECT_EQ(relu(kernel, x.tensor, y.tensor), TW_OK) << tw_last_error();
  void* graph = nullptr;
  ASSERT_EQ(end(nullptr, &graph), 0);
  EXPECT_EQ(y[5], before) << "it ran instead of being captured";
  std::free(graph);
  dlclose(driver);
  tw_release(prepared);
}

TEST_F(ServingCuda, FallsBackToWhatWasMadeForTheSameArchitecture) {
  Opened measured(database_with(fake_relu(), "Other GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(measured, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  auto line = TW_INIT(tw_report);
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK);
  EXPECT_EQ(line.outcome, TW_DEFAULT);
  EXPECT_STREQ(line.reason, "tuned for another chip: 'Other GPU', this is 'Fake GPU'");
  EXPECT_THAT(line.command, HasSubstr(" --target cuda:sm_80"));
  tw_release(prepared);

  Opened predicted(database_with(fake_relu(), "Fake GPU", /*offline=*/true));
  ASSERT_EQ(prepare(predicted, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK);
  EXPECT_EQ(line.outcome, TW_DEFAULT);
  EXPECT_STREQ(line.reason, "chosen by a model, never measured");
  tw_release(prepared);
}

TEST_F(ServingCuda, EachSizeGetsTheKernelOfItsRange) {
  test::ScopedEnv rows("FAKE_CUDA_ROWS", std::string("1"));
  Opened opened(database_with_ranges("Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared, kGpuRanges), TW_OK) << tw_last_error();
  ASSERT_EQ(tw_report_count(prepared), 2u);
  auto line = TW_INIT(tw_report);
  const char* sizes[] = {"d0=1..8", "d0=9..64"};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(tw_report_at(prepared, i, &line), TW_OK);
    EXPECT_EQ(line.outcome, TW_HIT) << line.reason;
    EXPECT_STREQ(line.sizes, sizes[i]);
  }
  const tw_kernel* kernel = nullptr;
  ASSERT_EQ(tw_find(prepared, kGpuRanges, &kernel), TW_OK) << tw_last_error();
  // The elements after the first two that are those of a relu.
  const auto rectified = [&](int64_t size) {
    OnDevice x, y;
    x.tensor.shape[0] = y.tensor.shape[0] = size;
    EXPECT_EQ(relu(kernel, x.tensor, y.tensor), TW_OK) << tw_last_error();
    int64_t count = 0;
    for (int64_t i = 2; i < 64; ++i) count += y[i] == (x[i] > 0 ? x[i] : 0) ? 1 : 0;
    return count;
  };
  const int64_t untouched = rectified(8);
  EXPECT_GE(rectified(64), 62);
  EXPECT_LT(untouched, 62) << "the other kernel was to run";
  tw_release(prepared);
}

// A table that was measured on another chip, or that a model has filled, is better than one kernel,
// but no hit.
TEST_F(ServingCuda, RangesOfTheSameArchitectureStandInForThoseOfTheChip) {
  Opened elsewhere(database_with_ranges("Other GPU"));
  tw_prepared* prepared = nullptr;
  auto line = TW_INIT(tw_report);
  const auto lines = [&](const Opened& opened, const char* reason) {
    ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared, kGpuRanges), TW_OK) << tw_last_error();
    ASSERT_EQ(tw_report_count(prepared), 2u);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(tw_report_at(prepared, i, &line), TW_OK);
      EXPECT_EQ(line.outcome, TW_DEFAULT);
      EXPECT_STREQ(line.sizes, i == 0 ? "d0=1..8" : "d0=9..64");
      EXPECT_STREQ(line.reason, reason);
    }
    tw_release(prepared);
  };
  lines(elsewhere, "tuned for another chip: 'Other GPU', this is 'Fake GPU'");
  Opened predicted(database_with_ranges("A100 of the data sheet", /*offline=*/true));
  lines(predicted, "chosen by a model, never measured");
}

TEST_F(ServingCuda, RefusesAGpuThatIsNotThere) {
  Opened opened(database_with(fake_relu(), "Fake GPU"));
  tw_prepared* prepared = nullptr;
  EXPECT_EQ(prepare(opened, "cuda:sm_90a", &prepared), TW_ERROR_DEVICE);
  EXPECT_STREQ(tw_last_error(),
               "kernels of target 'cuda:sm_90a' do not run on GPU 0, Fake GPU: it is sm_80");
  path = dir.path("no-driver.so");
  EXPECT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_ERROR_DEVICE);
  EXPECT_THAT(tw_last_error(), StartsWith("no GPU: the CUDA driver does not load"));
}

// The same operator on an input that a packing function lays out in reverse order.
CudaDescription packed(CudaDescription d) {
  d.source.params[0].name = "X_packed";
  KernelSource& packing = d.source.packing;
  packing.code = test::kPrelude + R"(
    int32_t tw_main(void* const* a, const int64_t* d, const tw_context* c) { return 0; }
    int32_t tw_pack_0(void* const* a, const int64_t* d, const tw_context* c) {
      for (int i = 0; i < 64; ++i) ((float*)a[1])[i] = ((float*)a[0])[63 - i];
      return 0;
    })";
  packing.description.main.symbol = "tw_main";
  packing.description.packs = {{"tw_pack_0", {test::param("X", {64}), d.source.params[0]}}};
  d.packing = compile_packing(packing);
  return d;
}

TEST_F(ServingCuda, WeightsArePackedOnTheHostAndKeptOnTheDevice) {
  test::ScopedEnv reversed("FAKE_CUDA_KERNEL", std::string("packed"));
  Opened opened(database_with(packed(fake_relu()), "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  const tw_kernel* kernel = nullptr;
  ASSERT_EQ(tw_find(prepared, kGpuSpec, &kernel), TW_OK) << tw_last_error();
  Floats x({64}, 3);
  tw_named_tensor named = {"X", &x.tensor};
  tw_weights* weights = nullptr;
  ASSERT_EQ(tw_pack_weights(kernel, &named, 1, nullptr, &weights), TW_OK) << tw_last_error();
  OnDevice y;
  const DLTensor* tensors[] = {nullptr, &y.tensor.tensor};
  auto args = TW_INIT(tw_launch_args);
  args.tensors = tensors;
  args.tensor_count = 2;
  args.weights = weights;
  ASSERT_EQ(tw_launch(kernel, &args), TW_OK) << tw_last_error();
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(y[i], x[i] > 0 ? x[i] : 0);
  tw_release(prepared);
  tw_free_weights(weights);  // keeps the GPU for itself
}

TEST_F(ServingCuda, PackingFunctionsOfAnotherProcessorAreAMiss) {
  CudaDescription foreign = packed(fake_relu());
  foreign.packing.processor = "another";
  Opened opened(database_with(foreign, "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  auto line = TW_INIT(tw_report);
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK);
  EXPECT_EQ(line.outcome, TW_MISS);
  EXPECT_EQ(line.reason,
            "its weight-packing code was compiled for another, this is " + host_processor());
  tw_release(prepared);
}

// The stand-in's kernel hands out what its tensor maps say.
CudaDescription with_tensor_maps() {
  CudaDescription d = fake_relu();
  CudaLaunch& l = d.source.launches[0];
  l.entry = "tw_maps";
  l.buffers = {1};
  TensorMap rows{0, ElemType::f32, {Expr(16), Expr(4)}, {Expr(64)}, {16, 4}, TensorSwizzle::B64};
  TensorMap row{1, ElemType::u8, {Expr(256)}, {}, {256}, TensorSwizzle::None};
  l.tensor_maps = {rows, row};
  return d;
}

TEST_F(ServingCuda, TensorMapsAreMadeOfTheOperandsOfALaunch) {
  Opened opened(database_with(with_tensor_maps(), "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  const tw_kernel* kernel = nullptr;
  ASSERT_EQ(tw_find(prepared, kGpuSpec, &kernel), TW_OK) << tw_last_error();
  OnDevice x, y;
  ASSERT_EQ(relu(kernel, x.tensor, y.tensor), TW_OK) << tw_last_error();
  auto address = [](const OnDevice& t) {
    return static_cast<char*>(t.tensor.tensor.data) + t.tensor.tensor.byte_offset;
  };
  std::vector<uint64_t> told(18);
  std::memcpy(told.data(), address(y), 8 * told.size());
  EXPECT_EQ(told[0], reinterpret_cast<uintptr_t>(address(x)));
  EXPECT_THAT(std::vector<uint64_t>(told.begin() + 1, told.begin() + 9),
              ::testing::ElementsAre(7, 2, 16, 4, 64, 16, 4, 220));
  EXPECT_EQ(told[9], reinterpret_cast<uintptr_t>(address(y)));
  tw_release(prepared);
}

TEST_F(ServingCuda, TensorMapsThatNoDeviceTakesAreAMiss) {
  CudaDescription wide = with_tensor_maps();
  wide.source.launches[0].tensor_maps[0].box = {16, 257};
  Opened opened(database_with(wide, "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  auto line = TW_INIT(tw_report);
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK);
  EXPECT_EQ(line.outcome, TW_MISS);
  EXPECT_STREQ(line.reason,
               "launch 'tw_maps' takes a tensor map that no device takes: its box has 257 elements "
               "along dimension 1; there may be 1 to 256");
  tw_release(prepared);
}

// A kernel for which the GPU has no room is found out when it is loaded.
TEST_F(ServingCuda, AKernelThatTheGpuDoesNotTakeIsAMissWithItsReason) {
  CudaDescription large = fake_relu();
  large.source.launches[0].shared_bytes = 1 << 20;
  Opened opened(database_with(large, "Fake GPU"));
  tw_prepared* prepared = nullptr;
  ASSERT_EQ(prepare(opened, "cuda:sm_80", &prepared), TW_OK) << tw_last_error();
  auto line = TW_INIT(tw_report);
  ASSERT_EQ(tw_report_at(prepared, 0, &line), TW_OK);
  EXPECT_EQ(line.outcome, TW_MISS);
  EXPECT_STREQ(line.reason,
               "kernel 'tw_relu': 1048576 bytes of shared memory per block; Fake GPU has 100000");
  tw_release(prepared);
}

}  // namespace
}  // namespace tilewright::serving::testing
