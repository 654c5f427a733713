// Routines that count: the numbers of a Range, and the places that a slice takes of an axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/plain/plain.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

int64_t whole_of(const PlainTensor& t, int64_t otherwise) {
  if (t.data == nullptr) return otherwise;
  if (t.elem != ElemType::i64) return static_cast<int64_t>(load_element(t.elem, t.data, 0));
  std::memcpy(&otherwise, t.data, sizeof otherwise);
  return otherwise;
}

double real_of(const PlainTensor& t, double otherwise) {
  return t.data == nullptr ? otherwise : load_element(t.elem, t.data, 0);
}

// How many steps lie between two numbers, at most INT64_MAX.
int64_t steps_between(int64_t from, int64_t to, int64_t step) {
  using Wide = __int128;
  const Wide span = Wide{to} - from, away = step > 0 ? span : -span,
             by = step > 0 ? step : -Wide{step};
  const Wide count = away <= 0 ? Wide{0} : (away + by - 1) / by;
  return static_cast<int64_t>(std::min<Wide>(count, std::numeric_limits<int64_t>::max()));
}

void store_whole(const PlainTensor& t, char* to, int64_t i, int64_t value) {
  if (t.elem == ElemType::i64) {
    std::memcpy(to + i * 8, &value, sizeof value);
  } else {
    store_element(t.elem, to, i, static_cast<double>(value));
  }
}

int64_t whole_range(const PlainCall& call) {
  const int64_t limit = whole_of(call.in[0], 0), start = whole_of(call.in[1], 0),
                delta = whole_of(call.in[2], 1);
  if (call.plain.size && (limit < 0 || limit > call.most)) {
    throw GraphError(fmt::format("a size is {} in this run; expected 0 to {}", limit, call.most));
  }
  if (delta == 0) throw GraphError("its step is 0 in this run; expected another number");
  const int64_t count = steps_between(start, limit, delta);
  require_room(call, count);
  for (int64_t i = 0; i < count; ++i) {
    // Between the two, though the product may be beyond all numbers.
    const uint64_t at =
        static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(delta);
    store_whole(call.out[0], call.out[0].data, i, static_cast<int64_t>(at));
  }
  return count;
}

// As others round: the span in the type of the numbers.
double span_of(ElemType elem, double start, double limit) {
  return elem == ElemType::f32 ? static_cast<float>(limit) - static_cast<float>(start)
                               : limit - start;
}

int64_t real_range(const PlainCall& call) {
  const double limit = real_of(call.in[0], 0), start = real_of(call.in[1], 0),
               delta = real_of(call.in[2], 1);
  const double count = std::ceil(span_of(call.in[0].elem, start, limit) / delta);
  if (!std::isfinite(count)) {
    throw GraphError(
        fmt::format("it goes from {} to {} in steps of {} in this run; expected finite numbers "
                    "and a step other than 0",
                    start, limit, delta));
  }
  const int64_t found =
      count <= 0 ? 0 : static_cast<int64_t>(std::min(count, static_cast<double>(call.most) + 1));
  require_room(call, found);
  for (int64_t i = 0; i < found; ++i) {
    store_element(call.out[0].elem, call.out[0].data, i, start + static_cast<double>(i) * delta);
  }
  return found;
}

}  // namespace

int64_t plain_range(const PlainCall& call) {
  return is_float(call.in[0].elem) ? real_range(call) : whole_range(call);
}

// Bounds are counted from the end where they are negative, and kept within the axis.
int64_t plain_slice(const PlainCall& call) {
  const int64_t size = call.in[0].shape[static_cast<size_t>(std::max<int64_t>(call.plain.axis, 0))];
  int64_t start = whole_of(call.in[1], 0),
          limit = whole_of(call.in[2], std::numeric_limits<int64_t>::max());
  const int64_t step = whole_of(call.in[3], 1);
  if (step == 0) throw GraphError("its step is 0 in this run; expected another number");
  const int64_t first = step > 0 ? 0 : -1, last = step > 0 ? size : size - 1;
  start = std::clamp<int64_t>(start < 0 ? start + size : start,
                              step > 0 ? 0 : std::min<int64_t>(0, last), last);
  limit = std::clamp<int64_t>(limit < 0 ? limit + size : limit, first, last);
  const int64_t count = size == 0 ? 0 : steps_between(start, limit, step);
  require_room(call, count);
  auto* const places = reinterpret_cast<int64_t*>(call.out[0].data);
  for (int64_t i = 0; i < count; ++i) places[i] = start + i * step;
  return count;
}

}  // namespace tilewright::graph
