#include "ir/dot_shape.h"

#include <algorithm>
#include <cstdint>

namespace tilewright {
namespace {

constexpr int kVectorBits = 512;

}  // namespace

// Solves for rows, columns and terms (the length of k). acc has rows * columns lanes, a has rows *
// terms, and b has terms * columns.
std::optional<DotShape> DotShape::of(Type acc, Type a, Type b) {
  const bool vectors = b.lanes * bits_of(b.elem) <= kVectorBits;
  if (a.lanes == b.lanes && acc.lanes > 1 && vectors) {
    if (a.lanes % acc.lanes != 0) return std::nullopt;
    const int terms = a.lanes / acc.lanes;
    return DotShape{acc.lanes, 1, terms, terms, true};
  }
  const int64_t outer = int64_t{acc.lanes} * a.lanes;
  int rows = 1;
  while (int64_t{b.lanes} * rows * rows < outer) ++rows;
  bool whole =
      int64_t{b.lanes} * rows * rows == outer && acc.lanes % rows == 0 && a.lanes % rows == 0;
  if (!whole) return std::nullopt;
  DotShape shape{rows, acc.lanes / rows, a.lanes / rows, a.lanes / rows};
  if (rows > 1) shape.group = std::min(shape.terms, std::max(1, 32 / bits_of(b.elem)));
  if (shape.terms % shape.group != 0) return std::nullopt;
  return shape;
}

const CallNode* as_tile_product(const Expr& e) {
  auto* n = e.as<CallNode>();
  if (!n || n->op != CallOp::Dot) return nullptr;
  const auto shape = DotShape::of(n->type, n->args[1].type(), n->args[2].type());
  return shape && shape->is_tile() ? n : nullptr;
}

}  // namespace tilewright
