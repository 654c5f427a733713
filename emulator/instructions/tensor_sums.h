// Sums of products as tensor cores form them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/instructions/mma_values.h"
#include "kernel/instructions/tensor_sums.h"

namespace tilewright::emulator {

// Elements of the products of two matrices, [m, k] and [k, n], as an instruction forms them.
class SumsOfProducts {
 public:
  SumsOfProducts(const Instruction& row, const TensorSums& how, Matrix& a, Matrix& b);

  // Element (i, j) of the product, added to `sum`. Neither infinities nor NaN are cut.
  double add_to(double sum, int i, int j) const;

 private:
  // An operand, rows of terms, and the exponents of its elements; those of zeros are far below.
  struct Operand {
    std::vector<double> values;
    std::vector<int> exponents;
    void reserve(size_t elements) {
      values.reserve(elements);
      exponents.reserve(elements);
    }
  };

  double add_part(double sum, size_t a, size_t b, int terms) const;

  TensorSums how_;
  int k_;
  bool is_cut_;
  Operand a_, b_;
};

}  // namespace tilewright::emulator
