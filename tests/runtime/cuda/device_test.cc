// The driver through a stand-in for libcuda, which keeps "device" memory on the host: what reaches it,
// and how its failures read.
#include "runtime/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "runtime/compile.h"
#include "runtime/error.h"
#include "runtime/files.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using test::error_of;
using test::ScopedEnv;
using test::TempDir;
using testing::HasSubstr;

// FAKE_CUDA_FAIL names the function that fails. A launch adds its grid's and block's x, shared bytes
// and first argument into the address that its second argument holds.
const char* const kFakeDriver = R"(
extern "C" {
void* malloc(unsigned long); void free(void*); char* getenv(const char*);
int strcmp(const char*, const char*); void* memcpy(void*, const void*, unsigned long);
void* memset(void*, int, unsigned long);
static int status(const char* name) {
  const char* fail = getenv("FAKE_CUDA_FAIL");
  return fail && !strcmp(fail, name) ? 700 : 0;
}
typedef void* H; typedef unsigned long A; typedef unsigned U;
int cuInit(U) { return getenv("FAKE_CUDA_NO_DEVICE") ? 100 : status("cuInit"); }
int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return 0; }
int cuDeviceGetName(char* n, int, int) { memcpy(n, "Fake GPU", 9); return 0; }
int cuDeviceGetAttribute(int* v, int which, int) {
  *v = which == 16 ? 4 : which == 38 ? 1 << 20 : which == 75 ? 8 : which == 97 ? 100000 : 0;
  return 0;
}
int cuDeviceTotalMem_v2(A* n, int) { *n = 1l << 30; return 0; }
int cuDevicePrimaryCtxRetain(H* c, int) { *c = malloc(1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(H) { return status("cuCtxSetCurrent"); }
int cuModuleLoadData(H* m, const void*) { *m = malloc(1); return status("cuModuleLoadData"); }
int cuModuleUnload(H) { return 0; }
int cuModuleGetFunction(H* f, H m, const char* n) { *f = m; return strcmp(n, "known") ? 500 : 0; }
static int large;
int cuFuncSetAttribute(H, int which, int v) { large = which == 8 ? v : 0; return 0; }
int cuLaunchKernel(H, U gx, U, U, U bx, U, U, U shared, H, void** a, void**) {
  **(long**)a[1] += gx + bx + shared + *(long*)a[0] + (large == (int)shared ? 1000000000 : 0);
  return status("cuLaunchKernel");
}
int cuMemAlloc_v2(A* a, A n) { *a = (A)malloc(n); return status("cuMemAlloc_v2"); }
int cuMemFree_v2(A a) { free((void*)a); return 0; }
int cuMemcpyHtoD_v2(A to, const void* from, A n) { memcpy((void*)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void* to, A from, A n) { memcpy(to, (void*)from, n); return 0; }
int cuMemsetD8Async(A to, unsigned char v, A n, H) { memset((void*)to, v, n); return 0; }
int cuStreamCreate(H* s, U) { *s = malloc(1); return 0; }
int cuStreamSynchronize(H) { return status("cuStreamSynchronize"); }
int cuStreamDestroy_v2(H) { return 0; }
int cuEventCreate(H* e, U) { *e = malloc(1); return 0; }
int cuEventRecord(H, H) { return 0; }
int cuEventSynchronize(H) { return status("cuEventSynchronize"); }
int cuEventElapsedTime(float* t, H, H) { *t = 1.5f; return 0; }
int cuEventDestroy_v2(H) { return 0; }
int cuGetErrorName(int e, const char** n) {
  *n = e == 100 ? "CUDA_ERROR_NO_DEVICE" : e == 500 ? "CUDA_ERROR_NOT_FOUND" : "CUDA_ERROR_ILLEGAL_ADDRESS";
  return 0;
}
int cuGetErrorString(int e, const char** t) {
  *t = e == 100 ? "no CUDA-capable device is detected" : "an illegal memory access was encountered";
  return 0;
}
}
)";

class FakeDevice : public testing::Test {
 protected:
  void SetUp() override {
    KernelSource source;
    source.language = SourceLanguage::Cxx;
    source.code = kFakeDriver;
    source.flags = {"-O0"};
    path = dir.path("libcuda-fake.so");
    ASSERT_TRUE(write_file_atomic(path, compile(source).object));
  }
  TempDir dir;
  std::string path;
};

TEST_F(FakeDevice, TellsWhatItIs) {
  cuda::Device device(0, path);
  EXPECT_EQ(device.facts().name, "Fake GPU");
  EXPECT_EQ(device.facts().compute_capability, 80);
  EXPECT_EQ(device.facts().sms, 4);
  EXPECT_EQ(device.facts().l2_bytes, 1 << 20);
  EXPECT_EQ(device.facts().memory_bytes, 1 << 30);
  EXPECT_EQ(device.facts().driver_version, 13000);
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
int64_t launched(cuda::Device& device, int64_t shared_bytes) {
  cuda::DeviceModule module(device, "image", "add");
  int64_t sum = 0, number = 7, *address = &sum;
  cuda::DeviceLaunch launch{"add", module.kernel("known"), {3, 1, 1}, {64, 1, 1}, shared_bytes, {}};
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
      HasSubstr("kernel 'add': 100001 bytes of shared memory a block; Fake GPU has 100000"));
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
