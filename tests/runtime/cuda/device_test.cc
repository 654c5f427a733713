// The driver through a stand-in for libcuda, which keeps "device" memory on the host: what reaches it,
// and how its failures read.
#include "runtime/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"
#include "runtime/compile/compile.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using test::ScopedEnv;
using testing::HasSubstr;

TEST_F(FakeDevice, TellsWhatItIs) {
  cuda::Device device(0, path);
  EXPECT_EQ(device.facts().name, "Fake GPU");
  EXPECT_EQ(device.facts().compute_capability, 80);
  EXPECT_EQ(device.facts().sms, 4);
  EXPECT_EQ(device.facts().l2_bytes, 1 << 20);
  EXPECT_EQ(device.facts().memory_bytes, 1 << 30);
  EXPECT_EQ(device.facts().driver_version, 13000);
  EXPECT_EQ(device.facts().clock_mhz, 1410);
  EXPECT_EQ(device.facts().memory_clock_mhz, 1512);
  cuda::DeviceFacts facts = device.facts();
  facts.driver_version = 12080;
  facts.driver_build = "570.1";
  EXPECT_EQ(facts.driver(), "CUDA 12.8, 570.1");
  facts.driver_build = "";
  EXPECT_EQ(facts.driver(), "CUDA 12.8");
}

TEST_F(FakeDevice, MemoryGoesThereAndBack) {
  cuda::Device device(0, path);
  std::vector<int> values = {1, 2, 3}, back(3);
  cuda::DeviceArray array(device, 12);
  array.upload(values.data());
  device.flush_l2();
  array.download(back.data());
  EXPECT_EQ(back, values);
}

// A launch of (3 blocks) x (64 threads) with this much shared memory, and what it added up.
int64_t launched(cuda::Device& device, int64_t shared_bytes, bool dependent = false) {
  cuda::DeviceModule module(device, "image", "add");
  int64_t sum = 0, number = 7, *address = &sum;
  cuda::DeviceLaunch launch{
      "add", module.kernel("known"), {3, 1, 1}, {64, 1, 1}, shared_bytes, dependent, {}};
  launch.arguments = {&number, &address};
  EXPECT_EQ(device.milliseconds("kernel 'add'", [&] { device.launch(launch); }), 1.5);
  return sum;
}

TEST_F(FakeDevice, LaunchesHandOverGeometryAndArguments) {
  cuda::Device device(0, path);
  EXPECT_EQ(launched(device, 100), 3 + 64 + 100 + 7);
  // Beyond 48 KiB the kernel is first allowed to have so much.
  EXPECT_EQ(launched(device, 65536), 3 + 64 + 65536 + 7 + 1000000000);
  EXPECT_THAT(
      error_of<DeviceError>([&] { launched(device, 100001); }),
      HasSubstr("kernel 'add': 100001 bytes of shared memory per block; Fake GPU has 100000"));
}

TEST_F(FakeDevice, DependentLaunchesSayThatTheyMayOverlap) {
  cuda::Device device(0, path);
  EXPECT_EQ(launched(device, 100, true), 3 + 64 + 1000000 + 100 + 7);
  // Graphs hold no such launches before CUDA 12.3.
  ScopedEnv version("FAKE_CUDA_VERSION", "12020");
  cuda::Device older(0, path);
  EXPECT_EQ(launched(older, 100, true), 3 + 64 + 100 + 7);
}

TEST_F(FakeDevice, ADriverOlderThanTheCompilerIsNamedWhereKernelsDoNotLoad) {
  if (cuda::nvrtc_major() < 12) GTEST_SKIP() << "no NVRTC that is newer than CUDA 11";
  ScopedEnv version("FAKE_CUDA_VERSION", "11080"), fail("FAKE_CUDA_FAIL", "cuModuleLoadData");
  cuda::Device device(0, path);
  EXPECT_THAT(
      error_of<DeviceError>([&] { launched(device, 0); }),
      HasSubstr(cuda::nvrtc_identity() + " makes code that a driver of CUDA 11.8 need not take"));
}

TEST_F(FakeDevice, FailuresNameTheKernel) {
  cuda::Device device(0, path);
  auto failing = [&](const char* function, auto&& work) {
    ScopedEnv fail("FAKE_CUDA_FAIL", function);
    return error_of<DeviceError>(work);
  };
  auto run = [&] { launched(device, 0); };
  const std::string why =
      "kernel 'add': CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered";
  EXPECT_EQ(failing("cuLaunchKernel", run), why);
  EXPECT_EQ(failing("cuEventSynchronize", run), why);
  EXPECT_EQ(failing("cuStreamSynchronize", [&] { device.wait("kernel 'add'"); }), why);
  EXPECT_THAT(failing("cuModuleLoadData", run),
              HasSubstr("loading kernel 'add' on Fake GPU: CUDA"));
  EXPECT_THAT(failing("cuMemAlloc_v2", [&] { cuda::DeviceArray array(device, 64); }),
              HasSubstr("allocating 64 bytes: CUDA_ERROR"));
  EXPECT_THAT(
      error_of<DeviceError>([&] { cuda::DeviceModule(device, "image", "add").kernel("unknown"); }),
      HasSubstr("finding 'unknown' in kernel 'add': CUDA_ERROR_NOT_FOUND"));
}

TEST_F(FakeDevice, RefusesWhereThereIsNone) {
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::Device device(1, path); }),
              HasSubstr("no GPU 1: this machine has 1"));
  ScopedEnv none("FAKE_CUDA_NO_DEVICE", "1");
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::Device device(0, path); }),
              HasSubstr("no GPU: the CUDA driver does not start: CUDA_ERROR_NO_DEVICE: no "
                        "CUDA-capable device is detected"));
}

TEST_F(FakeDevice, AContextThatDoesNotOpenIsGivenBack) {
  ScopedEnv fail("FAKE_CUDA_FAIL", "cuCtxSetCurrent");
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::Device device(0, path); }),
              HasSubstr("opening Fake GPU: CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST(DeviceWithoutADriver, IsRefusedWithThePath) {
  EXPECT_THAT(error_of<DeviceError>([] { cuda::Device device(0, "/no/such/libcuda.so"); }),
              HasSubstr("no GPU: the CUDA driver does not load (/no/such/libcuda.so"));
}

TEST_F(FakeDevice, ADriverThatLacksAFunctionIsTooOld) {
  KernelSource source;
  source.language = SourceLanguage::Cxx;
  source.code = "extern \"C\" int cuInit(unsigned) { return 0; }";
  std::string old = dir.path("libcuda-old.so");
  ASSERT_TRUE(write_file_atomic(old, compile(source).object));
  EXPECT_THAT(error_of<DeviceError>([&] { cuda::Device device(0, old); }),
              HasSubstr("the CUDA driver has no 'cuDriverGetVersion'; it is too old"));
}

}  // namespace
}  // namespace tilewright
