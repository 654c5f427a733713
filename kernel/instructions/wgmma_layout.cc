#include "kernel/instructions/wgmma_layout.h"

#include "kernel/instructions/fragment.h"

namespace tilewright {
namespace {

constexpr int64_t kPiece = 16;

// A K-major (`along_k`) or MN-major layout of a descriptor; its offsets are read from the
// distances.
WgmmaLayout guess(int bits, WgmmaSwizzle swizzle, bool along_k, const std::vector<int64_t>& across,
                  const std::vector<int64_t>& along) {
  auto at = [](const std::vector<int64_t>& places, int64_t i) {
    return i < static_cast<int64_t>(places.size()) ? places[static_cast<size_t>(i)] : kPiece;
  };
  const bool is_plain = swizzle == WgmmaSwizzle::None;
  const int64_t piece = kPiece * 8 / bits;
  WgmmaLayout layout{swizzle, along_k, kPiece, kPiece};
  if (along_k) {
    if (is_plain) layout.leading = at(along, piece);
    layout.stride = at(across, kCoreRows);
  } else {
    const int64_t of_rows = at(across, int64_t{span_of(swizzle)} * 8 / bits);
    const int64_t of_terms = at(along, kCoreRows);
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

int64_t WgmmaLayout::place(int bits, int64_t x, int64_t k) const {
  const int64_t span = span_of(swizzle), along = k * bits / 8;
  const bool is_plain = swizzle == WgmmaSwizzle::None;
  if (along_k) {
    const int64_t of_terms = is_plain ? along / kPiece * leading + along % kPiece : along;
    return x % kCoreRows * span + x / kCoreRows * stride + of_terms;
  }
  const int64_t across = x * bits / 8;
  return across % span + across / span * (is_plain ? stride : leading) + k % kCoreRows * span +
         k / kCoreRows * (is_plain ? leading : stride);
}

std::optional<WgmmaLayout> derive_wgmma_layout(int bits, WgmmaSwizzle swizzle,
                                               const std::vector<int64_t>& across,
                                               const std::vector<int64_t>& along) {
  for (bool along_k : {true, false}) {
    if (!along_k && bits != 16) continue;
    const WgmmaLayout layout = guess(bits, swizzle, along_k, across, along);
    bool fits = fits_descriptor(layout.leading) && fits_descriptor(layout.stride);
    for (size_t x = 0; x < across.size() && fits; ++x) {
      fits = across[x] == layout.place(bits, static_cast<int64_t>(x), 0);
    }
    for (size_t k = 0; k < along.size() && fits; ++k) {
      fits = along[k] == layout.place(bits, 0, static_cast<int64_t>(k));
    }
    if (fits) return layout;
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
