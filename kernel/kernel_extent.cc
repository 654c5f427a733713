#include "kernel/kernel_extent.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tilewright {

KernelExtent KernelExtent::dimension(size_t d) {
  KernelExtent e;
  e.factors.assign(d + 1, 0);
  e.factors[d] = 1;
  return e;
}

int KernelExtent::as_dimension() const {
  if (is_constant() || *this != dimension(factors.size() - 1)) return -1;
  return static_cast<int>(factors.size()) - 1;
}

int64_t KernelExtent::at(const std::vector<int64_t>& dims) const {
  if (factors.size() > dims.size()) {
    throw Error(fmt::format("a size follows from {} dynamic dimensions, but {} were given",
                            factors.size(), dims.size()));
  }
  int64_t sum = offset, term = 0;
  for (size_t d = 0; d < factors.size(); ++d) {
    if (__builtin_mul_overflow(factors[d], dims[d], &term) ||
        __builtin_add_overflow(sum, term, &sum)) {
      throw Error("a size leaves the range of 64 bits");
    }
  }
  int64_t quotient = sum / divisor;
  return quotient - (sum % divisor < 0 ? 1 : 0);
}

std::string KernelExtent::to_c(const std::vector<std::string>& dims) const {
  std::string sum;
  for (size_t d = 0; d < factors.size(); ++d) {
    if (factors[d] == 0) continue;
    std::string term =
        factors[d] == 1 ? dims.at(d) : fmt::format("{} * {}", factors[d], dims.at(d));
    sum += (sum.empty() ? "" : " + ") + term;
  }
  if (sum.empty()) {
    sum = std::to_string(offset);
  } else if (offset != 0) {
    sum += fmt::format(" {} {}", offset < 0 ? '-' : '+', offset < 0 ? -offset : offset);
  }
  return divisor == 1 ? sum : fmt::format("({}) / {}", sum, divisor);
}

}  // namespace tilewright
