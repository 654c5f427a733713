// Stand-ins for cuBLASLt and cuSPARSELt, which compute on the "device" memory of the stand-in for the
// driver: products of f32 and bf16, and those of i8 into i32, by columns as the libraries have them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "runtime/compile/compile.h"

namespace tilewright {

// Matrices by columns, and D = op(A) op(B) of them. FAKE_CUDA_LIBRARY makes results "wrong", or a
// product "hang".
inline const std::string kFakeProducts = R"(
extern "C" {
void* calloc(unsigned long, unsigned long); void free(void*); char* getenv(const char*);
int strcmp(const char*, const char*); void* memcpy(void*, const void*, unsigned long); int pause();
}
struct Matrix { int type; long rows, columns, stride; int count; long step; };
static bool mode(const char* name) {
  const char* how = getenv("FAKE_CUDA_LIBRARY");
  return how && !strcmp(how, name);
}
static float get(const Matrix& m, const void* data, long i, long j, int b) {
  long at = b * m.step + j * m.stride + i;
  if (m.type == 3) return ((const signed char*)data)[at];
  if (m.type == 14) {
    unsigned bits = (unsigned)((const unsigned short*)data)[at] << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
  }
  return m.type == 10 ? ((const int*)data)[at] : ((const float*)data)[at];
}
static void put(const Matrix& m, void* data, long i, long j, int b, float value) {
  long at = b * m.step + j * m.stride + i;
  if (m.type == 14) {
    unsigned bits;
    memcpy(&bits, &value, 4);
    ((unsigned short*)data)[at] = (bits + 0x8000) >> 16;
    return;
  }
  if (m.type == 10) ((int*)data)[at] = (int)value; else ((float*)data)[at] = value;
}
static void product(const Matrix& a, const void* A, int ta, const Matrix& b, const void* B, int tb,
                    const Matrix& d, void* D, const float* bias, int relu) {
  long terms = ta ? a.rows : a.columns;
  while (mode("hang")) pause();
  for (int n = 0; n < d.count; ++n)
    for (long j = 0; j < d.columns; ++j)
      for (long i = 0; i < d.rows; ++i) {
        float sum = bias ? bias[i] : 0;
        for (long k = 0; k < terms; ++k)
          sum += (ta ? get(a, A, k, i, n) : get(a, A, i, k, n)) *
                 (tb ? get(b, B, j, k, n) : get(b, B, k, j, n));
        if (relu && sum < 0) sum = 0;
        put(d, D, i, j, n, mode("wrong") ? sum + 1 : sum);
      }
}
)";

// It proposes three algorithms: the first does not fit, the second does not start, the third does.
// FAKE_CUDA_LIBRARY "none" makes it propose nothing.
inline const std::string kFakeCublasLt = kFakeProducts + R"(
typedef void* H; typedef unsigned long A;
struct Product { int compute, scale, ta, tb; unsigned epilogue; const float* bias; };
struct Candidate { A algorithm[8]; A workspace; int state; float waves; int reserved[4]; };
extern "C" {
int cublasLtCreate(H* h) { *h = calloc(1, 8); return 0; }
int cublasLtDestroy(H h) { free(h); return 0; }
A cublasLtGetVersion() { return 130102; }
const char* cublasLtGetStatusName(int s) { return s == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INTERNAL_ERROR"; }
int cublasLtMatrixLayoutCreate(H* m, int type, A rows, A columns, long stride) {
  *m = calloc(1, sizeof(Matrix));
  *(Matrix*)*m = {type, (long)rows, (long)columns, stride, 1, 0};
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(H m, int which, const void* v, A) {
  if (which == 5) ((Matrix*)m)->count = *(const int*)v;
  if (which == 6) ((Matrix*)m)->step = *(const long*)v;
  return 0;
}
int cublasLtMatrixLayoutDestroy(H m) { free(m); return 0; }
int cublasLtMatmulDescCreate(H* p, int compute, int scale) {
  *p = calloc(1, sizeof(Product));
  *(Product*)*p = {compute, scale, 0, 0, 1, nullptr};
  return 0;
}
int cublasLtMatmulDescSetAttribute(H p, int which, const void* v, A) {
  Product* product = (Product*)p;
  if (which == 3) product->ta = *(const int*)v;
  if (which == 4) product->tb = *(const int*)v;
  if (which == 7) product->epilogue = *(const unsigned*)v;
  if (which == 8) product->bias = *(const float* const*)v;
  return 0;
}
int cublasLtMatmulDescDestroy(H p) { free(p); return 0; }
int cublasLtMatmulPreferenceCreate(H* p) { *p = calloc(1, 8); return 0; }
int cublasLtMatmulPreferenceSetAttribute(H, int, const void*, A) { return 0; }
int cublasLtMatmulPreferenceDestroy(H p) { free(p); return 0; }
int cublasLtMatmulAlgoGetHeuristic(H, H, H, H, H, H, H, int wanted, Candidate* c, int* found) {
  if (mode("none")) return 15;
  *found = wanted < 3 ? wanted : 3;
  for (int i = 0; i < *found; ++i) {
    c[i].algorithm[0] = i;
    c[i].state = i == 0 ? 15 : 0;
  }
  return 0;
}
int cublasLtMatmul(H, H p, const void* alpha, const void* a, H ma, const void* b, H mb,
                   const void* beta, const void*, H, void* d, H md, const A* algorithm, void* space,
                   A bytes, H) {
  Product& product_ = *(Product*)p;
  bool integers = product_.scale == 10;
  if (integers ? *(const int*)alpha != 1 || *(const int*)beta != 0
               : *(const float*)alpha != 1 || *(const float*)beta != 0) return 7;
  if (algorithm[0] != 2 || !space || bytes == 0) return 14;
  product(*(Matrix*)ma, a, product_.ta, *(Matrix*)mb, b, product_.tb, *(Matrix*)md, d,
          product_.epilogue & 4 ? product_.bias : nullptr, product_.epilogue & 2);
  return 0;
}
}
)";

// Its "compressed" weights are copies. FAKE_CUDA_LIBRARY "old" makes it a version that is too old.
inline const std::string kFakeCusparseLt = kFakeProducts + R"(
typedef void* H; typedef unsigned long A;
struct Opaque { alignas(16) char data[512]; };
struct Product { Matrix a, b, d; int ta, tb; };
extern "C" {
int cusparseLtInit(H) { return 0; }
int cusparseLtDestroy(const void*) { return 0; }
int cusparseLtGetVersion(const void*, int* v) { *v = mode("old") ? 502 : 801; return 0; }
const char* cusparseLtGetErrorName(int) { return "CUSPARSE_STATUS_NOT_SUPPORTED"; }
int cusparseLtDenseDescriptorInit(const void*, H m, long rows, long columns, long stride, unsigned,
                                  int type, int order) {
  *(Matrix*)m = {type, rows, columns, stride, 1, 0};
  return order == 1 ? 0 : 10;
}
int cusparseLtStructuredDescriptorInit(const void* h, H m, long rows, long columns, long stride,
                                       unsigned align, int type, int order, int) {
  return cusparseLtDenseDescriptorInit(h, m, rows, columns, stride, align, type, order);
}
int cusparseLtMatDescriptorDestroy(const void*) { return 0; }
int cusparseLtMatmulDescriptorInit(const void*, H p, int ta, int tb, const Matrix* a,
                                   const Matrix* b, const Matrix*, const Matrix* d, int) {
  *(Product*)p = {*a, *b, *d, ta, tb};
  return 0;
}
int cusparseLtMatmulAlgSelectionInit(const void*, H s, const Product* p, int) {
  *(Product*)s = *p;
  return 0;
}
int cusparseLtMatmulPlanInit(const void*, H plan, const Product* p, const void*) {
  *(Product*)plan = *p;
  return 0;
}
int cusparseLtMatmulPlanDestroy(const void*) { return 0; }
int cusparseLtMatmulGetWorkspace(const void*, const void*, A* bytes) { *bytes = 64; return 0; }
int cusparseLtSpMMAPruneCheck(const void*, const Product* p, const void* data, int* invalid, H) {
  *invalid = 0;
  for (long row = 0; row < p->d.rows; ++row)
    for (long k = 0; k < (p->ta ? p->a.rows : p->a.columns); k += 4) {
      int kept = 0;
      for (int i = 0; i < 4; ++i)
        kept += (p->ta ? get(p->a, data, k + i, row, 0) : get(p->a, data, row, k + i, 0)) != 0;
      if (kept > 2) *invalid = 1;
    }
  return 0;
}
int cusparseLtSpMMACompressedSize(const void*, const Product* p, A* bytes, A* buffer) {
  *bytes = p->a.rows * p->a.columns;
  *buffer = 16;
  return 0;
}
int cusparseLtSpMMACompress(const void*, const Product* p, const void* from, void* to, void*, H) {
  memcpy(to, from, p->a.rows * p->a.columns);
  return 0;
}
int cusparseLtMatmul(const void*, const Product* p, const float* alpha, const void* a, const void* b,
                     const float* beta, const void*, void* d, void* space, H*, int streams) {
  if (*alpha != 1 || *beta != 0 || !space || streams != 1) return 3;
  product(p->a, a, p->ta, p->b, b, p->tb, p->d, d, nullptr, 0);
  return 0;
}
int cusparseLtMatmulSearch(const void* h, Product* p, const float* alpha, const void* a,
                           const void* b, const float* beta, const void* c, void* d, void* space,
                           H* streams, int count) {
  return cusparseLtMatmul(h, p, alpha, a, b, beta, c, d, space, streams, count);
}
}
)";

// Puts a stand-in at `path`.
inline void make_fake_library(const std::string& text, const std::string& path) {
  KernelSource source;
  source.language = SourceLanguage::Cxx;
  source.code = text;
  source.flags = {"-O0"};
  ASSERT_TRUE(write_file_atomic(path, compile(source).object));
}

}  // namespace tilewright
