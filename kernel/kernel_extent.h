// The size of a kernel's operand: a number, or a formula of dynamic dimensions known at launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

// floor((sum of factors[d] * dims[d] + offset) / divisor). The outputs of a convolution have such
// sizes when its input sizes are known only at launch. A kernel's caller computes them without the
// compiler's expressions.
struct KernelExtent {
  std::vector<int64_t> factors;  // one per dynamic dimension, in order; missing ones are 0
  int64_t offset = 0;
  int64_t divisor = 1;  // at least 1

  KernelExtent() = default;
  KernelExtent(int64_t constant) : offset(constant) {}  // NOLINT: a number is an extent
  // Dynamic dimension `d` itself.
  static KernelExtent dimension(size_t d);

  bool is_constant() const { return factors.empty(); }
  // The index of the dimension that this is, or -1.
  int as_dimension() const;
  // Throws Error when there are fewer dimensions than the formula names, and for 64-bit overflow.
  int64_t at(const std::vector<int64_t>& dims) const;
  // C text over these names: "3", "l", "(l + 1) / 2". Sizes are never negative, so C's division is
  // the floor.
  std::string to_c(const std::vector<std::string>& dims) const;

  bool operator==(const KernelExtent&) const = default;
};

}  // namespace tilewright
