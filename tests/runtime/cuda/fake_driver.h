// A stand-in for libcuda, which keeps "device" memory on the host.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "kernel/cuda_description.h"
#include "runtime/compile/compile.h"
#include "tests/runtime/support.h"

namespace tilewright {

// FAKE_CUDA_FAIL names the function that fails. A launch adds its grid's and block's x, shared bytes
// and first argument into the address that its second argument holds. A kernel "tw_relu" computes the
// relu of the 64 floats at its first argument into its second; FAKE_CUDA_KERNEL makes it "wrong",
// "partial" (an element is left out), write "beside" its output or into its "input", take its input
// "packed" in reverse order, cut off what is "above" 1.5, be "lazy" (it ceases to compute after four
// launches of a module), or "fault". A kernel "tw_product" computes that of its first two arguments,
// 8 x 8 floats each, into its third. A kernel "tw_maps" writes what its two tensor maps say (9 numbers of 8
// bytes each) to its first argument. With FAKE_CUDA_ANY every other kernel is taken for "tw_relu"; with
// FAKE_CUDA_ROWS the third argument of that is how many floats there are, of 64 at most. fake_cuda_log() gives a
// letter for each call since it was last called: 'A' reserves memory, 'U', 'D' and 'C' copy to, from and within
// the device, 'L' launches, 'P' with the attribute of an overlap, 'B' and 'E' begin and end a capture, 'I' makes a
// graph, 'G' starts one, 'W' waits for a stream.
inline const char* const kFakeDriver = R"(
extern "C" {
void* malloc(unsigned long); void* aligned_alloc(unsigned long, unsigned long); void free(void*); char* getenv(const char*);
int strcmp(const char*, const char*); void* memcpy(void*, const void*, unsigned long);
void* memset(void*, int, unsigned long);
void* fopen(const char*, const char*); int fgetc(void*); int fputc(int, void*);
int fseek(void*, long, int); int fclose(void*); int pause(); int atoi(const char*);
static int status(const char* name) {
  const char* fail = getenv("FAKE_CUDA_FAIL");
  return fail && !strcmp(fail, name) ? 700 : 0;
}
typedef void* H; typedef unsigned long A; typedef unsigned U;
static char calls[4096];
static unsigned called;
static void note(char call) {
  if (called + 1 < sizeof calls) calls[called++] = call;
  calls[called] = 0;
}
const char* fake_cuda_log() {
  static char told[4096];
  memcpy(told, calls, called + 1);
  called = 0;
  calls[0] = 0;
  return told;
}
// What is made and not given back is a leak that the address sanitizer finds.
static int made(const char* name, H* h, A n) {
  int failed = status(name);
  if (!failed) *h = malloc(n);
  return failed;
}
int cuInit(U) { return getenv("FAKE_CUDA_NO_DEVICE") ? 100 : status("cuInit"); }
int cuDriverGetVersion(int* v) {
  const char* version = getenv("FAKE_CUDA_VERSION");
  *v = version ? atoi(version) : 13000;
  return 0;
}
int cuDeviceGetCount(int* n) { *n = 1; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return 0; }
int cuDeviceGetName(char* n, int, int) { memcpy(n, "Fake GPU", 9); return 0; }
int cuDeviceGetAttribute(int* v, int which, int) {
  *v = which == 13 ? 1410000 : which == 36 ? 1512000 : which == 16 ? 4 : which == 38 ? 1 << 20 : which == 75 ? 8 : which == 97 ? 100000 : 0;
  return 0;
}
int cuDeviceTotalMem_v2(A* n, int) { *n = 1l << 30; return 0; }
static H primary;
static int retained;
int cuDevicePrimaryCtxRetain(H* c, int) {
  if (retained++ == 0) primary = malloc(1);
  *c = primary;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  if (--retained == 0) free(primary);
  return 0;
}
int cuCtxSetCurrent(H) { return status("cuCtxSetCurrent"); }
static int launches;  // of the newest module
int cuModuleLoadData(H* m, const void*) {
  launches = 0;
  return made("cuModuleLoadData", m, 1);
}
int cuModuleUnload(H m) { free(m); return 0; }
// What is told of a tensor map, which 64 bytes follow that stay as they are. The driver refuses what does
// not lie at multiples of 16, and one that is to lie at no multiple of 64.
struct Map { A address, type, rank, dims[2], strides[1], box[2], how; };
int cuTensorMapEncodeTiled(H map, int type, U rank, A address, const A* dims, const A* strides,
                           const U* box, const U* steps, int interleave, int swizzle,
                           int promotion, int fill) {
  if ((A)map % 64 || address % 16 || rank > 2 || steps[0] != 1) return 1;
  if (rank == 2 && (strides[0] % 16 || steps[1] != 1)) return 1;
  Map m = {address, (A)type, rank, {dims[0], rank > 1 ? dims[1] : 0}, {rank > 1 ? strides[0] : 0},
           {box[0], rank > 1 ? box[1] : 0}, (A)(interleave + 10 * swizzle + 100 * promotion + 1000 * fill)};
  memcpy(map, &m, sizeof m);
  return 0;
}
// Likewise of windows in two dimensions of an image: `how` has their corners and steps, a byte each.
int cuTensorMapEncodeIm2col(H map, int type, U rank, A address, const A* dims, const A* strides,
                            const int* lower, const int* upper, U channels, U pixels,
                            const U* steps, int interleave, int swizzle, int promotion, int fill) {
  if ((A)map % 64 || address % 16 || rank != 4 || strides[0] % 16 || pixels > 1024) return 1;
  if (interleave || promotion != 2 || fill || steps[0] != 1 || steps[3] != 1) return 1;
  A how = 0;
  int all[] = {lower[0], lower[1], upper[0], upper[1], (int)steps[1], (int)steps[2], swizzle};
  for (int i = 6; i >= 0; --i) how = how << 8 | (all[i] & 255);
  Map m = {address, (A)type, rank, {dims[0], dims[3]}, {strides[2]}, {channels, pixels}, how};
  memcpy(map, &m, sizeof m);
  return 0;
}
static char relu_kernel, product_kernel, map_kernel;
int cuModuleGetFunction(H* f, H m, const char* n) {
  *f = !strcmp(n, "tw_maps") ? (H)&map_kernel : !strcmp(n, "tw_relu") ? (H)&relu_kernel : !strcmp(n, "tw_product") ? (H)&product_kernel : m;
  if (*f == m && getenv("FAKE_CUDA_ANY")) *f = (H)&relu_kernel;
  return *f == m && strcmp(n, "known") ? 500 : 0;
}
static int product(void** args) {
  const float *a = *(float**)args[0], *b = *(float**)args[1];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 8; ++k) sum += a[8 * i + k] * b[8 * k + j];
      (*(float**)args[2])[8 * i + j] = sum;
    }
  return 0;
}
static int large, broken, capturing;
// What becomes of this process's first launch: the next letter of the file FAKE_CUDA_SCRIPT, which is
// crossed out. 'f': it faults, 'h': it never ends.
static int script = -1;
static int next_letter() {
  const char* path = getenv("FAKE_CUDA_SCRIPT");
  H file = path ? fopen(path, "r+") : 0;
  int letter = 0;
  while (file && (letter = fgetc(file)) == '.') {}
  if (file && letter > 0) {
    fseek(file, -1, 1);
    fputc('.', file);
  }
  if (file) fclose(file);
  return letter;
}
// Launches of a graph with the values of their arguments.
struct Captured { H kernel; A values[4]; };
struct Graph { int count; Captured launches[8]; };
static Graph captured;
static int relu(void** a) {
  const float* x = *(float**)a[0];
  float* y = *(float**)a[1];
  const char* how = getenv("FAKE_CUDA_KERNEL");
  int reversed = how && !strcmp(how, "packed");
  int count = getenv("FAKE_CUDA_ROWS") ? *(long long*)a[2] : 64;
  if (++launches > 4 && how && !strcmp(how, "lazy")) return 0;
  for (int i = 0; i < count; ++i) {
    float v = x[reversed ? count - 1 - i : i];
    if (v > 1.5f && how && !strcmp(how, "above")) v = 1.5f;
    if (i != 5 || !how || strcmp(how, "partial")) y[i] = v > 0 ? v : 0;
  }
  if (how && !strcmp(how, "input")) ((float*)x)[3] += 1;
  if (how && !strcmp(how, "wrong")) y[7] += 1;
  if (how && !strcmp(how, "beside")) y[64] = 1;
  if (how && !strcmp(how, "fault")) broken = 700;
  return 0;
}
int cuFuncSetAttribute(H, int which, int v) { large = which == 8 ? v : 0; return 0; }
int cuLaunchKernel(H f, U gx, U, U, U bx, U, U, U shared, H, void** a, void**) {
  note(bx >= 1000000 ? 'P' : 'L');
  if (capturing) {
    if (captured.count == 8) return 1;
    Captured& c = captured.launches[captured.count++];
    c.kernel = f;
    int given = f == (H)&product_kernel || getenv("FAKE_CUDA_ROWS") ? 3 : 2;
    for (int i = 0; i < given; ++i) memcpy(&c.values[i], a[i], sizeof(A));
    return 0;
  }
  if (script == -1) script = next_letter();
  if (script == 'f') broken = 700;
  if (f == (H)&relu_kernel) return relu(a);
  if (f == (H)&product_kernel) return product(a);
  if (f == (H)&map_kernel) {
    for (int i = 0; i < 2; ++i) memcpy(*(char**)a[0] + 72 * i, a[1 + i], 72);
    return 0;
  }
  **(long**)a[1] += gx + bx + shared + *(long*)a[0] + (large == (int)shared ? 1000000000 : 0);
  return status("cuLaunchKernel");
}
// As the manual has them. A launch with the attribute counts as one of a million threads more.
struct Attribute { int id, pad; int value[16]; };
struct Config { U grid[3], block[3], shared; H stream; const Attribute* attributes; U count; };
int cuLaunchKernelEx(const Config* c, H f, void** a, void** e) {
  const U* g = c->grid;
  const U* b = c->block;
  const Attribute* own = c->count == 1 ? c->attributes : 0;
  U more = own && own->id == 6 && own->value[0] == 1 ? 1000000 : 0;
  return cuLaunchKernel(f, g[0], g[1], g[2], b[0] + more, b[1], b[2], c->shared, c->stream, a, e);
}
int cuMemAlloc_v2(A* a, A n) {
  note('A');
  int failed = status("cuMemAlloc_v2");
  if (!failed) *a = (A)aligned_alloc(256, (n + 255) / 256 * 256);
  return failed;
}
int cuMemFree_v2(A a) { free((void*)a); return 0; }
int cuMemcpyHtoDAsync_v2(A to, const void* from, A n, H) { note('U'); memcpy((void*)to, from, n); return 0; }
int cuMemcpyDtoHAsync_v2(void* to, A from, A n, H) { note('D'); memcpy(to, (void*)from, n); return 0; }
int cuMemcpyDtoDAsync_v2(A to, A from, A n, H) { note('C'); memcpy((void*)to, (void*)from, n); return 0; }
int cuMemcpyHtoD_v2(A to, const void* from, A n) { memcpy((void*)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void* to, A from, A n) { memcpy(to, (void*)from, n); return 0; }
int cuCtxSynchronize() { return broken; }
int cuMemsetD8Async(A to, unsigned char v, A n, H) { memset((void*)to, v, n); return 0; }
int cuStreamCreate(H* s, U) { return made("cuStreamCreate", s, 1); }
int cuStreamBeginCapture_v2(H, int) { note('B'); capturing = 1; captured.count = 0; return status("cuStreamBeginCapture_v2"); }
int cuStreamEndCapture(H, H* g) { note('E'); capturing = 0; *g = malloc(1); return 0; }
int cuGraphInstantiateWithFlags(H* e, H, unsigned long long) {
  note('I');
  int failed = made("cuGraphInstantiateWithFlags", e, sizeof(Graph));
  if (!failed) memcpy(*e, &captured, sizeof(Graph));
  return failed;
}
int cuGraphLaunch(H e, H) {
  note('G');
  Graph& g = *(Graph*)e;
  for (int i = 0; i < g.count; ++i) {
    Captured& c = g.launches[i];
    H arguments[4];
    for (int k = 0; k < 4; ++k) arguments[k] = &c.values[k];
    c.kernel == (H)&relu_kernel ? relu(arguments) : product(arguments);
  }
  return status("cuGraphLaunch");
}
int cuGraphExecDestroy(H e) { free(e); return 0; }
int cuGraphDestroy(H g) { free(g); return 0; }
int cuStreamSynchronize(H) {
  note('W');
  if (capturing) return 900;
  while (script == 'h') pause();
  return broken ? broken : status("cuStreamSynchronize"); }
int cuStreamDestroy_v2(H s) { free(s); return 0; }
int cuEventCreate(H* e, U) { return made("cuEventCreate", e, 1); }
int cuEventRecord(H, H) { return 0; }
int cuEventSynchronize(H) { return status("cuEventSynchronize"); }
int cuEventElapsedTime(float* t, H, H) { *t = 1.5f; return 0; }
int cuEventDestroy_v2(H e) { free(e); return 0; }
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

// How the stand-in's "tw_relu" is described: a kernel of elementwise:shape=64,fn=relu.
inline CudaDescription fake_relu() {
  CudaDescription d;
  d.source.target = "cuda:sm_80";
  d.source.params = {{"X", ElemType::f32, {64}, ParamRole::Input},
                     {"Y", ElemType::f32, {64}, ParamRole::Output}};
  CudaLaunch l;
  l.entry = "tw_relu";
  l.buffers = {0, 1};
  l.grid = {Expr(1), Expr(1), Expr(1)};
  l.block = {64, 1, 1};
  d.source.launches = {l};
  return d;
}

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
