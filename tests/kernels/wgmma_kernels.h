// Kernels of one warpgroup that multiply by asynchronous matrix instructions, written without the code
// generator: what operands and sums have to look like stands here a second time.
#pragma once

#include <string>

#include "emulator/emulator.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright::test {

// C[64, n] = A[64, terms] * B[n, terms], both operands with their terms side by side in global memory.
struct WgmmaCase {
  const Instruction* row;
  int span = 128;  // bytes of the swizzle; 16: none
  bool a_across = false, b_across = false, a_in_registers = false;

  int bytes() const { return row->operand_bits() / 8; }
  // As many as a span has along k, or else two instructions.
  int terms() const;
  std::string to_string() const;
};

// The kernel "wgmma", for 128 threads.
std::string wgmma_kernel(const WgmmaCase& c);
// Shared memory that it takes.
int64_t wgmma_shared_bytes(const WgmmaCase& c);

struct WgmmaRun {
  EmulatorResult result;
  bool is_right = false;  // all sums are those of the operands
};

// Runs `kernel` on small whole numbers that each row's types and sums hold exactly.
WgmmaRun run_wgmma(const WgmmaCase& c, const std::string& kernel, uint64_t seed = 1);
inline WgmmaRun run_wgmma(const WgmmaCase& c) { return run_wgmma(c, wgmma_kernel(c)); }

}  // namespace tilewright::test
