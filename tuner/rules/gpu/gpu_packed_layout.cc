#include "tuner/rules/gpu/gpu_packed_layout.h"

#include <algorithm>

#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr int64_t kInGroup = 4;  // lanes per row

// The position of an element in a fragment (a_place()): the lane; the register's half along n and
// half along k; the element in the register.
struct Digits {
  Expr lane, half_n, half_k, part;
};

Digits digits_of(const MmaRow& row, const Expr& n, const Expr& k) {
  const int64_t packed = row.packed();
  return {digit(n, 1, kBand) * Expr(kInGroup) + digit(k, packed, kInGroup), digit(n, kBand, 2),
          digit(k, kInGroup * packed, 2), digit(k, 1, packed)};
}

}  // namespace

Expr digit(const Expr& x, int64_t unit, int64_t count) {
  return floordiv(floormod(x, Expr(unit * count)), Expr(unit));
}

int64_t PackedLayout::stride() const {
  const int64_t registers = fragments * row->a_registers();
  return std::min(kWordBits / bits / row->packed(), registers);
}

IndexMap PackedLayout::map(int rank, int column, int k) const {
  // The start of a lane's register r: registers fill the positions of a packed word up to the
  // stride, then the next word.
  auto begin = [&](int64_t r) {
    return Expr(r < stride() ? r : r / stride() * stride() * row->packed());
  };
  const int64_t registers = row->a_registers(),
                in_word = std::max<int64_t>(1, stride() / registers);
  const int64_t chunks = tile_k / (fragments * row->k);
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    const Expr &n = x[static_cast<size_t>(column)], &at_k = x[static_cast<size_t>(k)];
    Digits d = digits_of(*row, n, at_k);
    Expr place = digit(n, 2 * kBand, tile_n / (2 * kBand));
    place = place * Expr(chunks) + digit(at_k, fragments * row->k, chunks);
    place = place * Expr(32) + d.lane;
    place =
        place * Expr(chunk()) + d.part * Expr(stride()) + d.half_n * begin(1) + d.half_k * begin(2);
    if (in_word > 1) place = place + digit(at_k, row->k, in_word) * begin(registers);
    if (fragments > in_word) {
      place =
          place + digit(at_k, row->k * in_word, fragments / in_word) * begin(registers * in_word);
    }
    std::vector<Expr> out(x.begin(), x.begin() + std::min(column, k));
    for (const Expr& e : {floordiv(n, Expr(tile_n)), floordiv(at_k, Expr(tile_k)), place}) {
      out.push_back(e);
    }
    return out;
  });
}

PackedLayout packed_layout(int64_t tile_n, int64_t tile_k, int bits, const MmaRow& row) {
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

IndexMap fragment_map(const MmaRow& row, int rank, int column, int k) {
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    const Expr &n = x[static_cast<size_t>(column)], &at_k = x[static_cast<size_t>(k)];
    Digits d = digits_of(row, n, at_k);
    Expr element = (d.half_k * Expr(2) + d.half_n) * Expr(row.packed()) + d.part;
    std::vector<Expr> place(x.begin(), x.begin() + std::min(column, k));
    for (const Expr& digit :
         {floordiv(n, Expr(2 * kBand)), floordiv(at_k, Expr(row.k)), d.lane, element}) {
      place.push_back(digit);
    }
    return place;
  });
}

}  // namespace tilewright
