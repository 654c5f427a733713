// A stand-in for libcuda, which keeps "device" memory on the host.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/compile.h"
#include "runtime/files.h"
#include "tests/runtime/support.h"

namespace tilewright {

// FAKE_CUDA_FAIL names the function that fails. A launch adds its grid's and block's x, shared bytes
// and first argument into the address that its second argument holds. A kernel "tw_relu" computes the
// relu of the 64 floats at its first argument into its second; FAKE_CUDA_KERNEL makes it "wrong",
// "partial" (an element is left out), write "beside" its output, or "fault".
inline const char* const kFakeDriver = R"(
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
static char relu_kernel;
int cuModuleGetFunction(H* f, H m, const char* n) {
  *f = strcmp(n, "tw_relu") ? m : (H)&relu_kernel;
  return strcmp(n, "known") && strcmp(n, "tw_relu") ? 500 : 0;
}
static int large, broken;
static int relu(void** a) {
  const float* x = *(float**)a[0];
  float* y = *(float**)a[1];
  const char* how = getenv("FAKE_CUDA_KERNEL");
  for (int i = 0; i < 64; ++i) {
    if (i != 5 || !how || strcmp(how, "partial")) y[i] = x[i] > 0 ? x[i] : 0;
  }
  if (how && !strcmp(how, "wrong")) y[7] += 1;
  if (how && !strcmp(how, "beside")) y[64] = 1;
  if (how && !strcmp(how, "fault")) broken = 700;
  return 0;
}
int cuFuncSetAttribute(H, int which, int v) { large = which == 8 ? v : 0; return 0; }
int cuLaunchKernel(H f, U gx, U, U, U bx, U, U, U shared, H, void** a, void**) {
  if (f == (H)&relu_kernel) return relu(a);
  **(long**)a[1] += gx + bx + shared + *(long*)a[0] + (large == (int)shared ? 1000000000 : 0);
  return status("cuLaunchKernel");
}
int cuMemAlloc_v2(A* a, A n) { *a = (A)malloc(n); return status("cuMemAlloc_v2"); }
int cuMemFree_v2(A a) { free((void*)a); return 0; }
int cuMemcpyHtoD_v2(A to, const void* from, A n) { memcpy((void*)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void* to, A from, A n) { memcpy(to, (void*)from, n); return 0; }
int cuMemsetD8Async(A to, unsigned char v, A n, H) { memset((void*)to, v, n); return 0; }
int cuStreamCreate(H* s, U) { *s = malloc(1); return 0; }
int cuStreamSynchronize(H) { return broken ? broken : status("cuStreamSynchronize"); }
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
  test::TempDir dir;
  std::string path;
};

}  // namespace tilewright
