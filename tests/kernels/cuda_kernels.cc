#include "tests/kernels/cuda_kernels.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tilewright::test {

const char* const kAdd = R"(
extern "C" __global__ void __launch_bounds__(64) add(TW_IN(float) A, TW_IN(float) B,
                                                     TW_OUT(float) C, long long n) {
  long long i = blockIdx.x * 64ll + threadIdx.x;
  if (i < n)
    C[i] = A[i] + B[i];
}
)";

const char* const kTiled = R"(
extern "C" __global__ void __launch_bounds__(256) matmul(TW_IN(float) A, TW_IN(float) B,
                                                         TW_OUT(float) C, int n, int k) {
  TW_SHARED(float, As, 0, 256);
  TW_SHARED(float, Bs, 1024, 256);
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int t = 0; t < k; t += 16) {
    As[y * 16 + x] = A[row * k + t + x];
    Bs[y * 16 + x] = B[(t + y) * n + column];
    __syncthreads();  // loaded
    for (int i = 0; i < 16; ++i) sum += As[y * 16 + i] * Bs[i * 16 + x];
    __syncthreads();  // used
  }
  C[row * n + column] = sum;
}
)";

const char* const kPipelined = R"(
extern "C" __global__ void __launch_bounds__(256) matmul(TW_IN(float) A, TW_IN(float) B,
                                                         TW_OUT(float) C, int n, int k) {
  TW_SHARED(float, As, 0, 512);
  TW_SHARED(float, Bs, 2048, 512);
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  const int tiles = k / 16;
  float sum = 0;
  tw_cp_async<4>(As + (y * 16 + x), A + (row * k + x));
  tw_cp_async<4>(Bs + (y * 16 + x), B + (y * n + column));
  tw_cp_async_commit();
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      const int to = (t + 1) % 2 * 256 + y * 16 + x;
      tw_cp_async<4>(As + to, A + (row * k + (t + 1) * 16 + x));
      tw_cp_async<4>(Bs + to, B + (((t + 1) * 16 + y) * n + column));
    }
    tw_cp_async_commit();
    tw_cp_async_wait<1>();
    __syncthreads();  // landed
    const int at = t % 2 * 256;
    for (int i = 0; i < 16; ++i) sum += As[at + y * 16 + i] * Bs[at + i * 16 + x];
    __syncthreads();  // used
  }
  C[row * n + column] = sum;
}
)";

const char* const kSum = R"(
extern "C" __global__ void __launch_bounds__(64) sum(TW_IN(float) A, TW_OUT(float) C) {
  TW_SHARED(float, parts, 0, 2);
  const int t = threadIdx.x;
  tw_vec<float, 4> v = tw_ld<4>(A + (blockIdx.x * 256 + t * 4));
  float s = v[0] + v[1] + v[2] + v[3];
  for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (t % 32 == 0) parts[t / 32] = s;
  __syncthreads();
  if (t == 0) C[blockIdx.x] = parts[0] + parts[1];
}
)";

namespace {

const char* const kMma = R"(
extern "C" __global__ void __launch_bounds__(32) mma(TW_IN({T}) A, TW_IN({TB}) B,
                                                     TW_OUT({ACC}) C, int k) {
  TW_SHARED({T}, As, 0, 1024 / sizeof({T}));
  TW_SHARED({TB}, Bs, 1024, 512 / sizeof({T}));
  constexpr int kChunk = 16 / sizeof({T});  // elements of 16 bytes; a row has 4 of them
  const int lane = threadIdx.x;
  {ACC} d[4] = {0, 0, 0, 0};
  for (int k0 = 0; k0 < k; k0 += 4 * kChunk) {
    for (int i = lane; i < 64; i += 32) {
      int row = i / 4, chunk = i % 4;
      tw_st(As + (row * 4 + (chunk ^ (row / 2 % 4))) * kChunk,
            tw_ld<kChunk>(A + (row * k + k0 + chunk * kChunk)));
    }
    for (int i = lane; i < 32; i += 32) {
      int row = i / 4, chunk = i % 4;
      tw_st(Bs + (row * 4 + (chunk ^ (row / 2 % 4))) * kChunk,
            tw_ld<kChunk>(B + (row * k + k0 + chunk * kChunk)));
    }
    __syncthreads();
    for (int s = 0; s < 2; ++s) {
      unsigned a[4], b[2];
      int row = lane % 16, chunk = 2 * s + lane / 16;
      tw_ldmatrix_x4(a, As + (row * 4 + (chunk ^ (row / 2 % 4))) * kChunk);
      row = lane % 8, chunk = 2 * s + lane / 8 % 2;
      tw_ldmatrix_x2(b, Bs + (row * 4 + (chunk ^ (row / 2 % 4))) * kChunk);
      tw_mma_{ROW}(d, a, b, d);
    }
    __syncthreads();
  }
  const int row = lane / 4, column = lane % 4 * 2;
  C[row * 8 + column] = d[0];
  C[row * 8 + column + 1] = d[1];
  C[(row + 8) * 8 + column] = d[2];
  C[(row + 8) * 8 + column + 1] = d[3];
}
)";

}  // namespace

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::string cuda_type(ElemType elem) {
  switch (elem) {
    case ElemType::f32: return "float";
    case ElemType::f16: return "tw_f16";
    case ElemType::bf16: return "tw_bf16";
    case ElemType::f8e4m3: return "tw_e4m3";
    case ElemType::f8e5m2: return "tw_e5m2";
    case ElemType::i8: return "signed char";
    case ElemType::u8:
    // Elements that share a byte are copied by bytes.
    case ElemType::i4:
    case ElemType::u4:
    case ElemType::u1: return "unsigned char";
    default: return "int";
  }
}

std::string mma_kernel(const Instruction& row) {
  std::string text = kMma;
  replace_all(text, "{T}", cuda_type(row.operand));
  replace_all(text, "{TB}", cuda_type(row.b_operand()));
  replace_all(text, "{ACC}", cuda_type(row.acc));
  replace_all(text, "{ROW}", std::string(row.name));
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos) {
    throw std::logic_error("the kernel has not one '" + from + "'");
  }
  return text.replace(at, from.size(), to);
}

std::vector<float> numbers(size_t count, int seed) {
  std::vector<float> values(count);
  auto state = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 24) / 32 - 4;
    v = static_cast<float>(static_cast<int>(v));
  }
  return values;
}

std::vector<float> matmul(const std::vector<float>& a, const std::vector<float>& b, int m, int n,
                          int k) {
  std::vector<float> c(static_cast<size_t>(m * n));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int l = 0; l < k; ++l) {
        c[static_cast<size_t>(i * n + j)] +=
            a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
      }
    }
  }
  return c;
}

MatmulRun run_matmul(const std::string& text, uint64_t seed, int64_t shared_bytes) {
  constexpr int kM = 32, kN = 32, kK = 64;
  MatmulRun run;
  std::vector<float> a = numbers(kM * kK, 1), b = numbers(kK * kN, 2);
  run.c.assign(kM * kN, -1);
  run.want = matmul(a, b, kM, kN, kK);
  EmulatedLaunch launch{"matmul", {2, 2, 1}, {16, 16, 1}, shared_bytes, {}};
  using LaunchBuffer = EmulatedLaunch::Buffer;
  launch.arguments = {LaunchBuffer{0}, LaunchBuffer{1}, LaunchBuffer{2}, int64_t{kN}, int64_t{kK}};
  EmulatorOptions options;
  options.seed = seed;
  run.result = emulate(text, {launch},
                       {{"A", a.data(), kM * kK * 4},
                        {"B", b.data(), kK * kN * 4},
                        {"C", run.c.data(), kM * kN * 4, false}},
                       options);
  return run;
}

std::string report(const EmulatorResult& result, FaultKind kind) {
  if (!result.fault) return "no fault";
  EXPECT_EQ(fault_name(result.fault->kind), fault_name(kind)) << result.fault->to_string();
  return result.fault->to_string();
}

}  // namespace tilewright::test
