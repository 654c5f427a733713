#include "kernel/instructions/wgmma_rows.h"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <string>

namespace tilewright {
namespace {

constexpr int64_t kPiece = 16;
constexpr int kFirstCapability = 90, kEndCapability = 100;

// The rows that differ only in n.
struct Family {
  int k;
  ElemType acc, a, b;
  bool tf32;
  const char* types;  // the types of D, A and B as PTX names them
  const char* name;   // the end of the row's name
};

const std::vector<Family>& families() {
  using enum ElemType;
  static const std::vector<Family> all = {
      {16, f32, f16, f16, false, "f32.f16.f16", "f32_f16"},
      {16, f32, bf16, bf16, false, "f32.bf16.bf16", "f32_bf16"},
      {16, f16, f16, f16, false, "f16.f16.f16", "f16_f16"},
      {8, f32, f32, f32, true, "f32.tf32.tf32", "f32_tf32"},
      {32, f32, f8e4m3, f8e4m3, false, "f32.e4m3.e4m3", "f32_e4m3"},
      {32, f32, f8e5m2, f8e5m2, false, "f32.e5m2.e5m2", "f32_e5m2"},
      {32, f32, f8e4m3, f8e5m2, false, "f32.e4m3.e5m2", "f32_e4m3_e5m2"},
      {32, f32, f8e5m2, f8e4m3, false, "f32.e5m2.e4m3", "f32_e5m2_e4m3"},
      {32, f16, f8e4m3, f8e4m3, false, "f16.e4m3.e4m3", "f16_e4m3"},
      {32, f16, f8e5m2, f8e5m2, false, "f16.e5m2.e5m2", "f16_e5m2"},
      {32, i32, i8, i8, false, "s32.s8.s8", "s32_s8"},
      {32, i32, u8, u8, false, "s32.u8.u8", "s32_u8"},
      {32, i32, i8, u8, false, "s32.s8.u8", "s32_s8_u8"},
      {32, i32, u8, i8, false, "s32.u8.s8", "s32_u8_s8"},
  };
  return all;
}

// PTX ISA, wgmma.mma_async: the shapes of each kind of operands.
bool has_columns(const Family& family, int n) {
  constexpr int kMostFine = 32;
  return is_float(family.a) || n <= kMostFine || n % (2 * kCoreRows) == 0;
}

std::vector<WgmmaRow> make_wgmma_rows() {
  static std::deque<std::string> texts;  // the rows refer to these
  auto kept = [](std::string text) {
    return std::string_view(texts.emplace_back(std::move(text)));
  };
  constexpr int kMostColumns = 256;
  std::vector<WgmmaRow> rows;
  for (const Family& f : families()) {
    for (int n = kCoreRows; n <= kMostColumns; n += kCoreRows) {
      if (!has_columns(f, n)) continue;
      const std::string shape = fmt::format("m{}n{}k{}", WgmmaRow::m, n, f.k);
      MmaRow warp{kept(fmt::format("{}_{}", shape, f.name)),
                  kWarpRows,
                  n,
                  f.k,
                  f.acc,
                  f.a,
                  f.tf32,
                  kFirstCapability,
                  kept(fmt::format("wgmma.mma_async.sync.aligned.{}.{}", shape, f.types))};
      if (f.b != f.a) warp.other = f.b;
      warp.end_sm = kEndCapability;
      rows.push_back({warp});
    }
  }
  return rows;
}

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

const std::vector<WgmmaRow>& wgmma_rows() {
  static const std::vector<WgmmaRow> rows = make_wgmma_rows();
  return rows;
}

const WgmmaRow* find_wgmma(std::string_view name) {
  static const std::map<std::string_view, const WgmmaRow*> by_name = [] {
    std::map<std::string_view, const WgmmaRow*> rows;
    for (const WgmmaRow& row : wgmma_rows()) rows[row.warp.name] = &row;
    return rows;
  }();
  auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

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
