// Tensor maps: what the tensor copies of sm_90 and later are told about an operand in global memory and
// the box of it that one copy moves. A map is described as data, made when kernels are launched, and
// passed to them by value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

/// How 16-byte pieces of a box lie in shared memory: exclusive or with the number of their row, within
/// spans of so many bytes. The numbers are those of the CUDA driver.
enum class TensorSwizzle : uint8_t { None = 0, B32 = 1, B64 = 2, B128 = 3 };

/// The bytes of a span; 0 for None.
int64_t span_of(TensorSwizzle swizzle);
/// Where the byte lies that would lie at `address` of shared memory without the swizzle. That of
/// `tw_swizzle` over 16-byte pieces: bits 4 to 6 (5, 4) exclusive or with those three above them.
int64_t swizzled(TensorSwizzle swizzle, int64_t address);

constexpr int kMaxTensorRank = 5;
/// Bytes of a map as the driver makes it, and its alignment.
constexpr int kTensorMapBytes = 128, kTensorMapAlignment = 64;

/// Dimensions of an image at most: width, height, depth.
constexpr int kMaxPixelRank = kMaxTensorRank - 2;

/// What a map of windows (im2col mode) says besides: its operand is a stack of images, whose dimensions
/// are channels, width, height and depth as far as there are, and the number of the image. A copy moves
/// `box[0]` channels of each of `box[1]` pixels. These are the places where the first element of a
/// convolution's filter lies: from its coordinates on along the width, from there to the next row and
/// image, each from `lower` to the image's last pixel plus `upper`, both included, in these steps.
/// Offsets say which element of the filter is wanted: they are added to each place. Beyond an image
/// there are zeros.
struct PixelBox {
  /// Width first.
  std::array<int64_t, kMaxPixelRank> lower = {}, upper = {}, steps = {1, 1, 1};

  friend bool operator==(const PixelBox&, const PixelBox&) = default;
};

/// A map in numbers. Dimension 0 is the innermost, whose elements lie next to each other.
struct TensorMapValues {
  ElemType elem = ElemType::f32;
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> dims = {};     ///< elements
  std::array<int64_t, kMaxTensorRank> strides = {};  ///< bytes; of dimension 0 unused
  std::array<int64_t, kMaxTensorRank> box = {};      ///< elements that a copy moves
  TensorSwizzle swizzle = TensorSwizzle::None;
  std::optional<PixelBox> pixels = {};  ///< of a map of windows, whose box has two extents

  int element_bytes() const { return bits_of(elem) / 8; }
  /// What a copy brings to an mbarrier: all of the box, elements beyond the operand included.
  int64_t box_bytes() const;
};

/// A map as kernels are described: its sizes may depend on the dynamic dimensions. Requires 1 to
/// kMaxTensorRank dims, one stride fewer, and as many extents of the box as dims; of a map of windows
/// there are 3 dims or more, and two extents.
struct TensorMap {
  int buffer = 0;  ///< position among the parameters; scratch counts on after them
  ElemType elem = ElemType::f32;
  std::vector<Expr> dims;
  std::vector<Expr> strides;  ///< from dimension 1 on: one fewer than dims
  std::vector<int64_t> box;
  TensorSwizzle swizzle = TensorSwizzle::None;
  std::optional<PixelBox> pixels = {};
};

/// The largest offset that a copy of windows may be given along a dimension of the image; the least is 0.
/// Requires pixels and a rank of 3 to 5.
int64_t most_pixel_offset(const TensorMapValues& map);

/// The numbers of a map, where `size` makes a number of each of its sizes.
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

/// Why no device takes such a map of an operand at `address`: "its box has 300 elements along dimension
/// 1; there may be 1 to 256". Empty: it does. The rules are those of cuTensorMapEncodeTiled and
/// cuTensorMapEncodeIm2col, and that the rows of a swizzled box fill their span, without which no manual
/// says where they lie.
std::string tensor_map_problem(const TensorMapValues& map, uint64_t address);

}  // namespace tilewright
