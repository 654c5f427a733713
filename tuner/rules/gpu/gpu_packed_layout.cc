#include "tuner/rules/gpu/gpu_packed_layout.h"

#include <algorithm>

#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

// Maps the number of an element among those of several registers to its position in packed words.
// Registers of `packed` elements fill the positions of a word up to `stride`, then the next word.
IndexMap word_order(int64_t packed, int64_t stride) {
  return IndexMap::make(1, [&](const std::vector<Var>& element) {
    const Expr r = floordiv(element[0], packed), part = floormod(element[0], packed);
    return std::vector<Expr>{floordiv(r, stride) * (stride * packed) + part * stride +
                             floormod(r, stride)};
  });
}

IndexMap word_order(ElemType codes, ElemType elements) {
  const int64_t packed = kWordBits / bits_of(elements);
  return word_order(packed, kWordBits / bits_of(codes) / packed);
}

}  // namespace

int64_t PackedLayout::stride() const {
  const int64_t registers = fragments * row->a_registers();
  return std::min(kWordBits / bits / row->packed(), registers);
}

IndexMap PackedLayout::map(int rank, int column, int k) const {
  const Fragment chunk = repeat(row->a(), 1, static_cast<int>(fragments));
  return on_dimensions(chunk.packed(tile_n, tile_k, word_order(row->packed(), stride())), rank,
                       column, k);
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
  const IndexMap order = word_order(codes, elements);
  const IndexMap place = IndexMap::make(2, [&](const std::vector<Var>& x) {
    return std::vector<Expr>{x[0], floordiv(x[1], vector),
                             order.apply({floormod(x[1], vector)})[0]};
  });
  return on_dimensions(place, rank, column, k);
}

IndexMap word_order_map(ElemType codes, ElemType elements, int64_t vector, int rank) {
  const IndexMap back = word_order(codes, elements).inverse({vector});
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    std::vector<Expr> out(x.begin(), x.end() - 1);
    out.push_back(back.apply({x.back()})[0]);
    return out;
  });
}

}  // namespace tilewright
