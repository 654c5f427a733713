// Tensor maps, by which tensor copies (TMA) of sm_90 and later know an operand in global memory and
// the TMA tile of one copy. A map is described as data, made when kernels are launched, and passed
// to them by value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

/// The swizzle of a TMA tile's 16-byte vectors in shared memory. A vector's number within its span,
/// a row of the swizzle atom, is XORed with as many address bits from bit 7 on. The span has 32, 64
/// or 128 bytes. The numbers are those of the CUDA driver.
enum class TensorSwizzle : uint8_t { None = 0, B32 = 1, B64 = 2, B128 = 3 };

/// The bytes of a span, a row of the swizzle atom; 0 for None.
int64_t span_of(TensorSwizzle swizzle);
/// The address at which the swizzle puts the byte that would lie at `address` of shared memory
/// without it. It XORs bits 4 to 6 (B64: 4 and 5, B32: 4) with the bits three above them.
/// `tw_swizzle` does the same over 16-byte vectors.
int64_t swizzled(TensorSwizzle swizzle, int64_t address);

constexpr int kMaxTensorRank = 5;
/// Size in bytes of a map as the driver makes it, and its alignment.
constexpr int kTensorMapBytes = 128, kTensorMapAlignment = 64;

/// Maximum number of an image's dimensions: width, height, depth.
constexpr int kMaxPixelRank = kMaxTensorRank - 2;

/// Additional data of an im2col map. Its operand is a stack of images. The dimensions are channels,
/// then width, height and depth as far as there are, then the number of the image. A copy moves
/// `box[0]` channels of each of `box[1]` pixels.
///
/// The pixels are the positions of a convolution filter's first element. They follow one another
/// along the width from the copy's coordinates on, then to the next row and image. Each coordinate
/// runs from `lower` to the image's last pixel plus `upper`, both included, in these steps. Offsets
/// select the element of the filter: they are added to each position. Pixels beyond an image are
/// zeros.
struct PixelBox {
  /// Width first.
  std::array<int64_t, kMaxPixelRank> lower = {}, upper = {}, steps = {1, 1, 1};

  friend bool operator==(const PixelBox&, const PixelBox&) = default;
};

/// A map in numbers. Dimension 0 is the innermost; its elements are contiguous.
struct TensorMapValues {
  ElemType elem = ElemType::f32;
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> dims = {};     ///< elements
  std::array<int64_t, kMaxTensorRank> strides = {};  ///< bytes; unused for dimension 0
  std::array<int64_t, kMaxTensorRank> box = {};      ///< elements that a copy moves
  TensorSwizzle swizzle = TensorSwizzle::None;
  std::optional<PixelBox> pixels = {};  ///< for an im2col map, whose box has two extents

  int element_bytes() const { return bits_of(elem) / 8; }
  /// Bytes that a copy brings to an mbarrier: the whole TMA tile, elements beyond the operand
  /// included.
  int64_t box_bytes() const;
};

/// A map as kernels describe it: its sizes may depend on the dynamic dimensions. Requires 1 to
/// kMaxTensorRank dims, one stride fewer, and as many extents of the box as dims. An im2col map has
/// 3 dims or more, and two extents of the box.
struct TensorMap {
  int buffer = 0;  ///< position among the parameters; scratch counts on after them
  ElemType elem = ElemType::f32;
  std::vector<Expr> dims;
  std::vector<Expr> strides;  ///< from dimension 1 on: one fewer than dims
  std::vector<int64_t> box;
  TensorSwizzle swizzle = TensorSwizzle::None;
  std::optional<PixelBox> pixels = {};
};

/// The largest offset of an im2col copy along a dimension of the image; the least is 0. Requires
/// pixels and a rank of 3 to 5.
int64_t most_pixel_offset(const TensorMapValues& map);

/// The numbers of a map; `size` evaluates each of its sizes.
template <class Size>
TensorMapValues values_of(const TensorMap& map, const Size& size) {
  TensorMapValues values;
  values.elem = map.elem;
  values.rank = static_cast<int>(map.dims.size());
  values.swizzle = map.swizzle;
  values.pixels = map.pixels;
  for (size_t d = 0; d < map.dims.size() && d < kMaxTensorRank; ++d) {
    values.dims[d] = size(map.dims[d]);
    values.box[d] = d < map.box.size() ? map.box[d] : 1;
    if (d > 0) values.strides[d] = size(map.strides[d - 1]);
  }
  return values;
}

/// Why no device takes such a map of an operand at `address`; empty where devices take it. For
/// example: "its box has 300 elements along dimension 1; there may be 1 to 256". The rules are
/// those of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. One rule is added: rows of a
/// swizzled box fill their span, because no manual says where shorter rows lie.
std::string tensor_map_problem(const TensorMapValues& map, uint64_t address);

}  // namespace tilewright
