// A kernel written by hand around a matrix instruction with a sparse operand, and matrices for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/instructions/mma_rows.h"

namespace tilewright::test {

// C[16, 8] = A[16, k] * B[k, 8] by one warp and one instruction with this selector: A, B and E hold
// the registers of lane 0, then those of lane 1, ….
std::string sparse_kernel(const Instruction& row, int selector);

// Operands of small whole numbers, A with the row's pattern at places of every kind, and the
// registers that hold them. Lanes whose metadata do not count have what no instruction takes.
struct SparseOperands {
  std::vector<double> a, b;  // [16, k], [k, 8]
  std::vector<uint32_t> a_registers, b_registers, metadata;
};
SparseOperands sparse_operands(const Instruction& row, int selector, uint32_t seed);

}  // namespace tilewright::test
