// Operands and sums of matrix instructions as numbers.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "emulator/thread_state.h"
#include "kernel/instructions/mma_rows.h"
#include "runtime/tensor/element.h"

namespace tilewright::emulator {

// The bits of an element that count as tf32.
inline constexpr uint32_t kTf32Mask = 0xffffe000u;

// The element of an operand of this type whose bits these are.
inline double operand_value(const Instruction& row, ElemType type, uint32_t bits) {
  if (row.tf32) return static_cast<double>(std::bit_cast<float>(bits & kTf32Mask));
  return decode_element(type, bits);
}

// The element of that number among those in a lane's registers.
inline double element_value(const Instruction& row, ElemType type, const unsigned* registers,
                            int e) {
  const int bits = row.operand_bits(), part = e % row.packed();
  const uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  return operand_value(row, type, registers[e / row.packed()] >> (part * bits) & mask);
}

inline double sum_value(const Instruction& row, const void* sums, int i) {
  if (row.acc == ElemType::i32) return static_cast<const int32_t*>(sums)[i];
  if (row.acc == ElemType::f16) {
    return decode_element(row.acc, static_cast<const uint16_t*>(sums)[i]);
  }
  return static_cast<double>(static_cast<const float*>(sums)[i]);
}

inline void set_sum(const Instruction& row, void* sums, int i, double value) {
  if (row.acc == ElemType::i32) {
    static_cast<int32_t*>(sums)[i] =
        static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value)));
  } else if (row.acc == ElemType::f16) {
    static_cast<uint16_t*>(sums)[i] = static_cast<uint16_t>(encode_element(row.acc, value));
  } else {
    static_cast<float*>(sums)[i] = static_cast<float>(value);
  }
}

// In f64, which holds every product and integer sum of the instructions' shapes exactly.
class Matrix {
 public:
  Matrix(int rows, int columns)
      : columns_(static_cast<size_t>(columns)), values_(static_cast<size_t>(rows) * columns_) {}
  double& at(MatrixPlace p) {
    return values_[static_cast<size_t>(p.row) * columns_ + static_cast<size_t>(p.column)];
  }

 private:
  size_t columns_;
  std::vector<double> values_;
};

// Calls `visit` with each lane's request, the number among the lane's elements, and the element.
template <class Visit>
void each_element(const Fragment& f, const std::vector<ThreadState*>& lanes, const Visit& visit) {
  for (int lane = 0; lane < f.lanes(); ++lane) {
    WarpRequest& request = lanes[static_cast<size_t>(lane)]->request;
    for (int e = 0; e < f.elements(); ++e) visit(request, e, f.at(lane, e));
  }
}

}  // namespace tilewright::emulator
