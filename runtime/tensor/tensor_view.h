// Elements that lie somewhere else: in a mapped file, in another array.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/type.h"
#include "runtime/tensor/array.h"

namespace tilewright {

// A packed row-major tensor, at any alignment. It does not own its data.
struct TensorView {
  ElemType elem = ElemType::f32;
  std::vector<int64_t> shape;  // empty: one number
  const void* data = nullptr;

  int64_t count() const;
  double get(int64_t flat_index) const;
};

TensorView view_of(const HostArray& array);

// "[4096, 128]"
std::string describe_shape(const std::vector<int64_t>& shape);

}  // namespace tilewright
