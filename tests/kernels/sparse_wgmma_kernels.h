// Kernels of one warpgroup that multiply by an asynchronous matrix instruction with a sparse operand,
// written without the code generator: how metadata lie stands here a second time.
#pragma once

#include <string>

#include "emulator/emulator.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright::test {

// C[64, n] = A[64, k] * B[n, k], one instruction, of A what is kept.
struct SparseWgmmaCase {
  const Instruction* row;
  int selector = 0;
  bool a_in_registers = true;

  std::string to_string() const;
};

// The kernel "wgmma", for 128 threads: of kept elements A, columns B, sums C and words E of lanes.
std::string sparse_wgmma_kernel(const SparseWgmmaCase& c);

struct SparseWgmmaRun {
  EmulatorResult result;
  bool is_right = false;  // all sums are those of the operands
};

// Runs `kernel` on small whole numbers at places of all kinds. `words` changes the metadata.
SparseWgmmaRun run_sparse_wgmma(const SparseWgmmaCase& c, const std::string& kernel,
                                void (*words)(std::vector<uint32_t>&) = nullptr);

}  // namespace tilewright::test
