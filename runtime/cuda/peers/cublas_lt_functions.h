// The part of cuBLASLt's interface that is used, as its manual gives it: the library is opened at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::cuda::cublas_lt {

using Handle = void*;  // of the library, descriptors, layouts and preferences

struct Algorithm {
  uint64_t data[8];
};

struct Candidate {
  Algorithm algorithm;
  size_t workspace_bytes;
  int state;  // 0: it can be used
  float waves;
  int reserved[4];
};

// Attributes, operations and types by the library's numbers.
enum : int {
  kTransA = 3,
  kTransB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBatchCount = 5,
  kBatchStride = 6,
  kMaxWorkspace = 1,
  kOpN = 0,
  kOpT = 1,
  kCompute16F = 64,
  kCompute32F = 68,
  kCompute64F = 70,
  kCompute32I = 72,
  kR32F = 0,
  kR64F = 1,
  kR16F = 2,
  kR8I = 3,
  kR32I = 10,
  kR16BF = 14,
  kR8F_E4M3 = 28,
  kR8F_E5M2 = 29,
};
enum : uint32_t { kPlain = 1, kRelu = 2, kBias = 4, kReluBias = 6 };

struct Functions {
  int (*create)(Handle* handle);
  int (*destroy)(Handle handle);
  size_t (*version)();
  const char* (*status_name)(int status);
  int (*layout_create)(Handle* layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
  int (*layout_set)(Handle layout, int attribute, const void* value, size_t bytes);
  int (*layout_destroy)(Handle layout);
  int (*product_create)(Handle* product, int compute, int scale);
  int (*product_set)(Handle product, int attribute, const void* value, size_t bytes);
  int (*product_destroy)(Handle product);
  int (*preference_create)(Handle* preference);
  int (*preference_set)(Handle preference, int attribute, const void* value, size_t bytes);
  int (*preference_destroy)(Handle preference);
  int (*heuristic)(Handle library, Handle product, Handle a, Handle b, Handle c, Handle d,
                   Handle preference, int wanted, Candidate* candidates, int* found);
  int (*matmul)(Handle library, Handle product, const void* alpha, const void* a, Handle a_layout,
                const void* b, Handle b_layout, const void* beta, const void* c, Handle c_layout,
                void* d, Handle d_layout, const Algorithm* algorithm, void* workspace,
                size_t workspace_bytes, void* stream);
};

}  // namespace tilewright::cuda::cublas_lt
