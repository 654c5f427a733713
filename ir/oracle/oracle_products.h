// Sums of products along a vector of output elements: the hot loops of the oracle for whole outputs.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tilewright::oracle {

// The elements of a factor: v[lane * lane_step + k * inner_step], and in the same places the bounds
// of their errors and what Approx::apart has of them (null: nothing).
struct ProductOperand {
  const double *v = nullptr, *e = nullptr, *apart = nullptr;
  int64_t lane_step = 0, inner_step = 0;
  bool whole = false;  // FactorTable::whole; the other operand is then exact
};

// Sums, a lane each. Where an operand's errors are whole, `error` has all of the sum's error, and
// `magnitude` and `apart` stay zero.
struct ProductSums {
  std::vector<double> value, magnitude, error, apart;

  void clear(int64_t lanes);
  // Adds the products of one or two operands for k in [0, inner).
  void add(std::span<const ProductOperand> operands, int64_t inner);
};

}  // namespace tilewright::oracle
