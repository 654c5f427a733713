// Hand-written CUDA kernels, right ones; tests break them by replacing parts of their text.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "emulator/emulator.h"
#include "kernel/instructions/mma_rows.h"

namespace tilewright::test {

void replace_all(std::string& text, const std::string& from, const std::string& to);

// C[i] = A[i] + B[i] for n elements, 64 threads a block.
extern const char* const kAdd;
// C[m, n] = A[m, k] * B[k, n] in tiles of 16 x 16, m, n and k multiples of 16; 16 x 16 threads.
extern const char* const kTiled;
// The same with copies that run one tile ahead.
extern const char* const kPipelined;
// C[b] = the sum of 256 elements of A from 256 * b on; 64 threads.
extern const char* const kSum;

// C[16, 8] = A[16, k] * B[8, k]^T by one warp: 64 bytes of k at a time through swizzled shared memory,
// `ldmatrix` and the row's mma. Requires a shape m16n8 with 32 bytes of k, which counts bytes where
// elements share them.
std::string mma_kernel(const Instruction& row);
// The name of the element type in kernels: "tw_f16", "signed char".
std::string cuda_type(ElemType elem);

// `text` with the one place where `from` stands replaced.
std::string replaced(std::string text, const std::string& from, const std::string& to);

// Small whole numbers, by position.
std::vector<float> numbers(size_t count, int seed);
std::vector<float> matmul(const std::vector<float>& a, const std::vector<float>& b, int m, int n,
                          int k);

// The result of kTiled and its like on 32 x 32 x 64, and what the emulator said.
struct MatmulRun {
  std::vector<float> c, want;
  EmulatorResult result;
};
MatmulRun run_matmul(const std::string& text, uint64_t seed = 0, int64_t shared_bytes = 4096);

// The text of the fault, which has to be of this kind.
std::string report(const EmulatorResult& result, FaultKind kind);

}  // namespace tilewright::test
