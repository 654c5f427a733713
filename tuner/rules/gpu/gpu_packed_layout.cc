#include "tuner/rules/gpu/gpu_packed_layout.h"

#include <algorithm>

#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
Expr digit(const Expr& x, int64_t unit, int64_t count) {
  return floordiv(floormod(x, Expr(unit * count)), Expr(unit));
}

int64_t PackedLayout::stride() const {
  const int64_t registers = fragments * row->a_registers();
  return std::min(kWordBits / bits / row->packed(), registers);
}

IndexMap PackedLayout::map(int rank, int column, int k) const {
  // A lane's registers fill the positions of a packed word up to the stride, then the next word.
  const int64_t packed = row->packed();
  const IndexMap order = IndexMap::make(1, [&](const std::vector<Var>& element) {
    const Expr r = floordiv(element[0], packed), part = floormod(element[0], packed);
    return std::vector<Expr>{floordiv(r, stride()) * (stride() * packed) + part * stride() +
                             floormod(r, stride())};
  });
  const Fragment chunk = repeat(row->a(), 1, static_cast<int>(fragments));
  return on_dimensions(chunk.packed(tile_n, tile_k, order), rank, column, k);
}

PackedLayout packed_layout(int64_t tile_n, int64_t tile_k, int bits, const Instruction& row) {
  PackedLayout layout{tile_n, tile_k, 1, bits, &row};
  auto fits = [&](int64_t fragments) {
    return fragments * row.a_registers() * row.packed() * bits <= kAccessBits &&
           tile_k % (fragments * row.k) == 0;
  };
  while (fits(layout.fragments * 2)) layout.fragments *= 2;
  return layout;
}

IndexMap word_map(ElemType codes, ElemType elements, int64_t vector, int rank, int column, int k) {
  const int64_t in_word = kWordBits / bits_of(codes), packed = kWordBits / bits_of(elements),
                stride = in_word / packed;
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    const Expr &n = x[static_cast<size_t>(column)], &at_k = x[static_cast<size_t>(k)];
    Expr in_turn = digit(at_k, in_word, vector / in_word) * Expr(in_word) +
                   digit(at_k, 1, packed) * Expr(stride) + digit(at_k, packed, stride);
    std::vector<Expr> place(x.begin(), x.begin() + std::min(column, k));
    for (const Expr& e : {n, floordiv(at_k, Expr(vector)), in_turn}) place.push_back(e);
    return place;
  });
}

IndexMap word_order_map(ElemType codes, ElemType elements, int64_t vector, int rank) {
  const int64_t in_word = kWordBits / bits_of(codes), packed = kWordBits / bits_of(elements),
                stride = in_word / packed;
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    const Expr& place = x.back();
    std::vector<Expr> out(x.begin(), x.end() - 1);
    out.push_back(digit(place, in_word, vector / in_word) * Expr(in_word) +
                  digit(place, 1, stride) * Expr(packed) + digit(place, stride, packed));
    return out;
  });
}

}  // namespace tilewright
