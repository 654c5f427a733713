#include <algorithm>
#include <cmath>

#include "ir/interpreter/interpreter.h"

namespace tilewright {
namespace {

// SplitMix64: gives the same numbers on every platform.
uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Integers stay small, so that sums of products stay exact in every accumulator.
double random_value(ElemType elem, uint64_t& state) {
  uint64_t r = next_random(state);
  auto below = [&](uint64_t n) { return static_cast<double>((r >> 33) % n); };
  const ElemInfo& t = info(elem);
  switch (t.kind) {
    case ElemKind::Bool: return static_cast<double>(r >> 63);
    case ElemKind::Index: return below(8);
    case ElemKind::UInt: return below(uint64_t{1} << std::min(t.bits, 3));
    case ElemKind::Int:
      if (t.bits == 1) return r >> 63 ? 1 : -1;
      return t.bits == 2 ? below(4) - 2 : below(9) - 4;
    case ElemKind::Float: break;
  }
  if (elem == ElemType::e8m0) return std::ldexp(1.0, static_cast<int>(below(7)) - 3);
  return round_to(elem, std::ldexp(static_cast<double>(r >> 11), -52) - 1.0);
}

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace

NdArray NdArray::zeros(ElemType elem, std::vector<int64_t> shape) {
  auto count = static_cast<size_t>(count_of(shape));
  return {elem, std::move(shape), std::vector<double>(count)};
}

NdArray NdArray::random(ElemType elem, std::vector<int64_t> shape, uint64_t seed) {
  NdArray array = zeros(elem, std::move(shape));
  for (double& value : array.data) value = random_value(elem, seed);
  return array;
}

}  // namespace tilewright
