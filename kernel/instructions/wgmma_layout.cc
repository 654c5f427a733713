#include "kernel/instructions/wgmma_layout.h"

#include "kernel/instructions/fragment.h"

namespace tilewright {
namespace {

constexpr int64_t kPiece = 16;

int64_t quotient(int64_t x, int64_t y) { return x / y; }
int64_t rest(int64_t x, int64_t y) { return x % y; }
Expr quotient(const Expr& x, int64_t y) { return floordiv(x, y); }
Expr rest(const Expr& x, int64_t y) { return floormod(x, y); }

// A K-major (`along_k`) or MN-major layout of a descriptor; its offsets are those of single
// elements.
WgmmaLayout guess(int bits, WgmmaSwizzle swizzle, bool along_k, const IndexMap& place, int rows,
                  int terms) {
  auto at = [&](int64_t x, int64_t k) {
    return x < rows && k < terms ? place.at({x, k})[0] : kPiece;
  };
  const bool is_plain = swizzle == WgmmaSwizzle::None;
  WgmmaLayout layout{swizzle, along_k, kPiece, kPiece};
  if (along_k) {
    if (is_plain) layout.leading = at(0, kPiece * 8 / bits);
    layout.stride = at(kCoreRows, 0);
  } else {
    const int64_t of_rows = at(int64_t{span_of(swizzle)} * 8 / bits, 0),
                  of_terms = at(0, kCoreRows);
    layout.leading = is_plain ? of_terms : of_rows;
    layout.stride = is_plain ? of_rows : of_terms;
  }
  return layout;
}

}  // namespace

int span_of(WgmmaSwizzle swizzle) {
  switch (swizzle) {
    case WgmmaSwizzle::None: return 16;
    case WgmmaSwizzle::Bytes32: return 32;
    case WgmmaSwizzle::Bytes64: return 64;
    case WgmmaSwizzle::Bytes128: return 128;
  }
  return 16;
}

std::optional<WgmmaSwizzle> swizzle_of_span(int64_t bytes) {
  for (WgmmaSwizzle s :
       {WgmmaSwizzle::None, WgmmaSwizzle::Bytes32, WgmmaSwizzle::Bytes64, WgmmaSwizzle::Bytes128}) {
    if (span_of(s) == bytes) return s;
  }
  return std::nullopt;
}

int period_of(WgmmaSwizzle swizzle) {
  return swizzle == WgmmaSwizzle::None ? static_cast<int>(kPiece) : kCoreRows * span_of(swizzle);
}

// The address bits that number the 16-byte vectors of a span are XORed with the bits that number
// lines of 128 bytes.
int64_t swizzled(WgmmaSwizzle swizzle, int64_t address) {
  constexpr int kLine = 128;
  const int64_t pieces = span_of(swizzle) / kPiece;
  return address ^ address / kLine % pieces * kPiece;
}

template <class T>
T WgmmaLayout::place_of(int bits, const T& x, const T& k) const {
  const int64_t span = span_of(swizzle), bytes = bits / 8;
  const bool is_plain = swizzle == WgmmaSwizzle::None;
  if (along_k) {
    const T along = k * bytes, rows = rest(x, kCoreRows) * span + quotient(x, kCoreRows) * stride;
    if (!is_plain) return rows + along;
    return rows + quotient(along, kPiece) * leading + rest(along, kPiece);
  }
  const T across = x * bytes;
  return rest(across, span) + quotient(across, span) * (is_plain ? stride : leading) +
         rest(k, kCoreRows) * span + quotient(k, kCoreRows) * (is_plain ? leading : stride);
}

int64_t WgmmaLayout::place(int bits, int64_t x, int64_t k) const { return place_of(bits, x, k); }

IndexMap WgmmaLayout::place(int bits) const {
  return IndexMap::make(2, [&](const std::vector<Var>& x) {
    return std::vector<Expr>{place_of<Expr>(bits, x[0], x[1])};
  });
}

std::optional<WgmmaLayout> derive_wgmma_layout(int bits, WgmmaSwizzle swizzle,
                                               const IndexMap& place, int rows, int terms) {
  if (!same_digits(place, place, {rows, terms})) return std::nullopt;
  for (bool along_k : {true, false}) {
    if (!along_k && bits != 16) continue;
    const WgmmaLayout layout = guess(bits, swizzle, along_k, place, rows, terms);
    const bool fits = fits_descriptor(layout.leading) && fits_descriptor(layout.stride);
    if (fits && same_digits(place, layout.place(bits), {rows, terms})) return layout;
  }
  return std::nullopt;
}

bool fits_descriptor(int64_t bytes) {
  return bytes >= 0 && bytes % kPiece == 0 && bytes < int64_t{1} << 18;
}

uint64_t wgmma_descriptor(int64_t address, const WgmmaLayout& layout) {
  auto field = [](int64_t bytes, int at) { return static_cast<uint64_t>(bytes / kPiece) << at; };
  return field(address, 0) | field(layout.leading, 16) | field(layout.stride, 32) |
         static_cast<uint64_t>(layout.swizzle) << 62;
}

}  // namespace tilewright
