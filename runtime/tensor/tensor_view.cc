#include "runtime/tensor/tensor_view.h"

#include <fmt/format.h>

#include "runtime/tensor/element.h"

namespace tilewright {

int64_t TensorView::count() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

double TensorView::get(int64_t flat_index) const { return load_element(elem, data, flat_index); }

TensorView view_of(const HostArray& array) { return {array.elem(), array.shape(), array.data()}; }

std::string describe_shape(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace tilewright
