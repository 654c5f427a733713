#include "kernel/tensor_map.h"

#include <fmt/format.h>

namespace tilewright {
namespace {

// Limits of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col.
constexpr int64_t kMostElements = int64_t{1} << 32;
constexpr int64_t kMostStride = int64_t{1} << 40;
constexpr int64_t kMostBox = 256;
constexpr int64_t kMostPixels = 1024;
constexpr int64_t kMostStep = 8;
constexpr int kLeastImageRank = 3;
constexpr int64_t kPieceBytes = 16;

std::string dimension_problem(const TensorMapValues& map, size_t d) {
  if (map.dims[d] < 1 || map.dims[d] > kMostElements) {
    return fmt::format("dimension {} has {} elements; there may be 1 to 2^32", d, map.dims[d]);
  }
  const bool is_pixels = map.pixels && d == 1;
  const int64_t most = is_pixels ? kMostPixels : kMostBox;
  if (map.box[d] < 1 || map.box[d] > most) {
    return is_pixels
               ? fmt::format("a copy moves {} pixels; there may be 1 to {}", map.box[d], most)
               : fmt::format("its box has {} elements along dimension {}; there may be 1 to {}",
                             map.box[d], d, most);
  }
  const int64_t stride = map.strides[d];
  if (d > 0 && (stride < 0 || stride >= kMostStride || stride % kPieceBytes != 0)) {
    return fmt::format("dimension {} has a stride of {} bytes; it is a multiple of {} below 2^40",
                       d, stride, kPieceBytes);
  }
  return "";
}

// The im2col corners share 16 bits.
int64_t corner_bits(const TensorMapValues& map) {
  constexpr std::array<int64_t, 3> kBits = {16, 8,
                                            5};  // bits per corner of 1, 2 and 3 image dimensions
  return kBits.at(static_cast<size_t>(map.rank - kLeastImageRank));
}

std::string pixel_problem(const TensorMapValues& map) {
  if (map.rank < kLeastImageRank) {
    return fmt::format(
        "it has {} dimensions; one of windows has channels, 1 to 3 dimensions of "
        "an image, and images",
        map.rank);
  }
  const int64_t least = -(int64_t{1} << (corner_bits(map) - 1)), most = -least - 1;
  for (size_t x = 0; x + 2 < static_cast<size_t>(map.rank); ++x) {
    const int64_t lower = map.pixels->lower[x], upper = map.pixels->upper[x],
                  step = map.pixels->steps[x];
    for (int64_t corner : {lower, upper}) {
      if (corner >= least && corner <= most) continue;
      return fmt::format(
          "a corner of its bounding box is {} along dimension {}; it may be {} to {}", corner,
          x + 1, least, most);
    }
    if (lower > map.dims[x + 1] - 1 + upper) {
      return fmt::format("its bounding box is empty along dimension {}: from {} to {}", x + 1,
                         lower, map.dims[x + 1] - 1 + upper);
    }
    if (step < 1 || step > kMostStep) {
      return fmt::format("it has steps of {} along dimension {}; there may be 1 to {}", step, x + 1,
                         kMostStep);
    }
  }
  return "";
}

}  // namespace

int64_t most_pixel_offset(const TensorMapValues& map) {
  return (int64_t{1} << corner_bits(map)) - 1;
}

int64_t span_of(TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::None: return 0;
    case TensorSwizzle::B32: return 32;
    case TensorSwizzle::B64: return 64;
    case TensorSwizzle::B128: return 128;
  }
  return 0;
}

int64_t swizzled(TensorSwizzle swizzle, int64_t address) {
  if (swizzle == TensorSwizzle::None) return address;
  const int64_t pieces = span_of(swizzle) - kPieceBytes;  // the bits that number 16-byte vectors
  return address ^ (address >> 3 & pieces);
}

int64_t TensorMapValues::box_bytes() const {
  int64_t bytes = element_bytes();
  for (int d = 0; d < rank; ++d) bytes *= box[static_cast<size_t>(d)];
  return bytes;
}

std::string tensor_map_problem(const TensorMapValues& map, uint64_t address) {
  if (map.rank < 1 || map.rank > kMaxTensorRank) {
    return fmt::format("it has {} dimensions; there may be 1 to {}", map.rank, kMaxTensorRank);
  }
  if (bits_of(map.elem) % 8 != 0) {
    return fmt::format("its elements are {}; those of a part of a byte are described as u8",
                       to_string(map.elem));
  }
  if (address % kPieceBytes != 0) {
    return fmt::format("its operand lies at {:#x}; that is to be a multiple of {}", address,
                       kPieceBytes);
  }
  for (size_t d = 0; d < static_cast<size_t>(map.rank); ++d) {
    if (std::string problem = dimension_problem(map, d); !problem.empty()) return problem;
  }
  if (map.pixels) {
    if (std::string problem = pixel_problem(map); !problem.empty()) return problem;
  }
  const int64_t row = map.box[0] * map.element_bytes();
  const int64_t span = span_of(map.swizzle);
  if (row % kPieceBytes != 0) {
    return fmt::format("a row of its box has {} bytes; it has a multiple of {}", row, kPieceBytes);
  }
  if (span != 0 && row != span) {
    return fmt::format("a row of its box has {} bytes, a span of its swizzle {}; they are the same",
                       row, span);
  }
  return "";
}

}  // namespace tilewright
