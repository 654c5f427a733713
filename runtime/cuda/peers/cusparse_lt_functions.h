// The part of cuSPARSELt's interface that is used, as its manual gives it from version 0.6 on: the
// library is opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilewright::cuda::cusparse_lt {

// The library's state of a handle, a matrix, a product, a plan: at most half of this in the
// versions that there are.
struct Opaque {
  alignas(16) unsigned char data[2048];
};

enum : int {
  kOpN = 0,
  kOpT = 1,
  kColumnOrder = 1,
  kHalfSparse = 0,
  kCompute32I = 0,

  kCompute32F = 2,
  kDefaultAlgorithm = 0,
};

struct Functions {
  int (*init)(Opaque* handle);
  int (*destroy)(const Opaque* handle);
  int (*version)(const Opaque* handle, int* version);
  const char* (*error_name)(int status);
  int (*dense_matrix)(const Opaque* handle, Opaque* matrix, int64_t rows, int64_t columns,
                      int64_t stride, uint32_t alignment, int type, int order);
  int (*sparse_matrix)(const Opaque* handle, Opaque* matrix, int64_t rows, int64_t columns,
                       int64_t stride, uint32_t alignment, int type, int order, int sparsity);
  int (*matrix_destroy)(const Opaque* matrix);
  int (*product)(const Opaque* handle, Opaque* product, int op_a, int op_b, const Opaque* a,
                 const Opaque* b, const Opaque* c, const Opaque* d, int compute);
  int (*algorithm)(const Opaque* handle, Opaque* algorithm, const Opaque* product, int which);
  int (*plan)(const Opaque* handle, Opaque* plan, const Opaque* product, const Opaque* algorithm);
  int (*plan_destroy)(const Opaque* plan);
  int (*workspace)(const Opaque* handle, const Opaque* plan, size_t* bytes);
  int (*check_pattern)(const Opaque* handle, const Opaque* product, const void* dense, int* invalid,
                       void* stream);
  int (*compressed_size)(const Opaque* handle, const Opaque* plan, size_t* bytes,
                         size_t* buffer_bytes);
  int (*compress)(const Opaque* handle, const Opaque* plan, const void* dense, void* compressed,
                  void* buffer, void* stream);
  int (*search)(const Opaque* handle, Opaque* plan, const void* alpha, const void* a, const void* b,
                const void* beta, const void* c, void* d, void* workspace, void** streams,
                int32_t count);
  int (*matmul)(const Opaque* handle, const Opaque* plan, const void* alpha, const void* a,
                const void* b, const void* beta, const void* c, void* d, void* workspace,
                void** streams, int32_t count);
};

}  // namespace tilewright::cuda::cusparse_lt
