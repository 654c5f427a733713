// Routines that choose elements: NonZero, Compress, Unique.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/plain/plain.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

bool is_truth(const PlainTensor& t, int64_t i) { return load_element(t.elem, t.data, i) != 0; }

// A tensor as rows of slices along an axis; of all elements where there is no axis.
struct Slices {
  Slices(const Plain& plain, const PlainTensor& t) {
    const auto axis = static_cast<size_t>(std::max<int64_t>(plain.axis, 0));
    length = plain.axis < 0 ? element_count(t.shape).value() : t.shape[axis];
    for (size_t d = 0; plain.axis >= 0 && d < t.shape.size(); ++d) {
      if (d < axis) outer *= t.shape[d];
      if (d > axis) inner *= t.shape[d];
    }
    bytes = bits_of(t.elem) / 8;
  }
  int64_t element(int64_t row, int64_t slice, int64_t i) const {
    return (row * length + slice) * inner + i;
  }
  // Copies a slice to the place `to` among `size` ones.
  void copy(const char* from, int64_t slice, char* made, int64_t to, int64_t size) const {
    for (int64_t row = 0; row < outer; ++row) {
      std::memcpy(made + (row * size + to) * inner * bytes, from + element(row, slice, 0) * bytes,
                  static_cast<size_t>(inner * bytes));
    }
  }

  int64_t outer = 1, length = 1, inner = 1, bytes = 1;
};

// Elements in the order of their values; those that are no numbers are equal, and the last.
int order_of(const PlainTensor& t, int64_t i, int64_t j) {
  if (t.elem == ElemType::i64) {  // which f64 does not hold
    int64_t a = 0, b = 0;
    std::memcpy(&a, t.data + i * 8, sizeof a);
    std::memcpy(&b, t.data + j * 8, sizeof b);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  if (t.elem == ElemType::u64) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, t.data + i * 8, sizeof a);
    std::memcpy(&b, t.data + j * 8, sizeof b);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  const double a = load_element(t.elem, t.data, i), b = load_element(t.elem, t.data, j);
  if (std::isnan(a) || std::isnan(b)) return int(std::isnan(a)) - int(std::isnan(b));
  return a < b ? -1 : a > b ? 1 : 0;
}

int order_of(const PlainTensor& t, const Slices& slices, int64_t a, int64_t b) {
  for (int64_t row = 0; row < slices.outer; ++row) {
    for (int64_t i = 0; i < slices.inner; ++i) {
      const int order = order_of(t, slices.element(row, a, i), slices.element(row, b, i));
      if (order != 0) return order;
    }
  }
  return 0;
}

}  // namespace

int64_t plain_nonzero(const PlainCall& call) {
  const PlainTensor& x = call.in[0];
  const int64_t count = element_count(x.shape).value();
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) found += is_truth(x, i) ? 1 : 0;
  require_room(call, found);
  auto* places = reinterpret_cast<int64_t*>(call.out[0].data);
  for (int64_t i = 0, k = 0; i < count; ++i) {
    if (!is_truth(x, i)) continue;
    int64_t rest = i;
    for (size_t d = x.shape.size(); d-- > 0; rest /= x.shape[d]) {
      places[static_cast<int64_t>(d) * found + k] = rest % x.shape[d];
    }
    ++k;
  }
  return found;
}

int64_t plain_compress(const PlainCall& call) {
  const PlainTensor &x = call.in[0], &chosen = call.in[1];
  const Slices slices(call.plain, x);
  const int64_t length = std::min(slices.length, element_count(chosen.shape).value());
  int64_t found = 0;
  for (int64_t i = 0; i < length; ++i) found += is_truth(chosen, i) ? 1 : 0;
  require_room(call, found);
  for (int64_t i = 0, k = 0; i < length; ++i) {
    if (is_truth(chosen, i)) slices.copy(x.data, i, call.out[0].data, k++, found);
  }
  return found;
}

// Outputs: the different slices, the first place of each, the place of each slice among them, and how often each
// occurs.
int64_t plain_unique(const PlainCall& call) {
  const PlainTensor& x = call.in[0];
  const Slices slices(call.plain, x);
  auto* const order = reinterpret_cast<int64_t*>(call.scratch);
  int64_t* const firsts = order + slices.length;  // the first places, in the order of the results
  for (int64_t i = 0; i < slices.length; ++i) order[i] = i;
  std::sort(order, order + slices.length, [&](int64_t a, int64_t b) {
    const int way = order_of(x, slices, a, b);
    return way != 0 ? way < 0 : a < b;
  });
  const auto is_first = [&](int64_t i) {
    return i == 0 || order_of(x, slices, order[i - 1], order[i]) != 0;
  };
  int64_t found = 0;
  for (int64_t i = 0; i < slices.length; ++i) {
    if (is_first(i)) firsts[found++] = order[i];
  }
  require_room(call, found);
  if (!call.plain.sorted) std::sort(firsts, firsts + found);
  int64_t *const places = reinterpret_cast<int64_t*>(call.out[1].data),
                 *const inverse = reinterpret_cast<int64_t*>(call.out[2].data),
                 *const counts = reinterpret_cast<int64_t*>(call.out[3].data);
  for (int64_t k = 0; k < found; ++k) {
    places[k] = firsts[k];
    counts[k] = 0;
    slices.copy(x.data, firsts[k], call.out[0].data, k, found);
  }
  for (int64_t i = 0, k = -1; i < slices.length; ++i) {
    if (is_first(i)) {
      k = call.plain.sorted ? k + 1 : std::lower_bound(firsts, firsts + found, order[i]) - firsts;
    }
    inverse[order[i]] = k;
    ++counts[k];
  }
  return found;
}

}  // namespace tilewright::graph
