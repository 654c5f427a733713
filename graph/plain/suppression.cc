// NonMaxSuppression: boxes in the order of their scores, without those that overlap one before them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/plain/plain.h"

namespace tilewright::graph {
namespace {

struct Box {
  float left, right, top, bottom;

  float area() const { return (right - left) * (bottom - top); }
};

// From corners [y, x, y, x] in any order, or from a center and sizes [x, y, width, height].
Box box_at(const float* b, bool centers) {
  if (!centers) {
    return {std::min(b[1], b[3]), std::max(b[1], b[3]), std::min(b[0], b[2]), std::max(b[0], b[2])};
  }
  const float wide = b[2] / 2, high = b[3] / 2;
  return {b[0] - wide, b[0] + wide, b[1] - high, b[1] + high};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const Box both{std::max(a.left, b.left), std::min(a.right, b.right), std::max(a.top, b.top),
                 std::min(a.bottom, b.bottom)};
  if (!(both.right > both.left) || !(both.bottom > both.top)) return false;
  const float all = a.area() + b.area() - both.area();
  if (!(a.area() > 0) || !(b.area() > 0) || !(all > 0)) return false;
  return both.area() / all > threshold;
}

float number_of(const PlainTensor& t, float otherwise) {
  if (t.data != nullptr) std::memcpy(&otherwise, t.data, sizeof otherwise);
  return otherwise;
}

}  // namespace

// Rows of batch, class and box.
int64_t plain_suppression(const PlainCall& call) {
  const PlainTensor &boxes = call.in[0], &scores = call.in[1];
  const int64_t batches = boxes.shape[0], count = boxes.shape[1], classes = scores.shape[1];
  int64_t most = 0;  // of a class
  if (call.in[2].data != nullptr) std::memcpy(&most, call.in[2].data, sizeof most);
  const float threshold = number_of(call.in[3], 0), least = number_of(call.in[4], 0);
  const bool has_least = call.in[4].data != nullptr;
  auto* const rows = reinterpret_cast<int64_t*>(call.out[0].data);
  auto* const order = reinterpret_cast<int64_t*>(call.scratch);
  int64_t found = 0;
  for (int64_t list = 0; list < batches * classes; ++list) {
    const int64_t batch = list / classes;
    const float* const own = reinterpret_cast<const float*>(scores.data) + list * count;
    const float* const corners = reinterpret_cast<const float*>(boxes.data) + batch * count * 4;
    int64_t candidates = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (!std::isnan(own[i]) && (!has_least || own[i] > least)) order[candidates++] = i;
    }
    std::sort(order, order + candidates,
              [&](int64_t a, int64_t b) { return own[a] != own[b] ? own[a] > own[b] : a < b; });
    const int64_t first = found;
    for (int64_t c = 0; c < candidates && found - first < most; ++c) {
      const Box box = box_at(corners + order[c] * 4, call.plain.centers);
      bool stays = true;
      for (int64_t k = first; stays && k < found; ++k) {
        stays = !overlap(box, box_at(corners + rows[k * 3 + 2] * 4, call.plain.centers), threshold);
      }
      if (!stays) continue;
      require_room(call, found + 1);
      rows[found * 3] = batch;
      rows[found * 3 + 1] = list % classes;
      rows[found * 3 + 2] = order[c];
      ++found;
    }
  }
  return found;
}

}  // namespace tilewright::graph
