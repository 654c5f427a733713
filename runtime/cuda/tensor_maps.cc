#include "runtime/cuda/tensor_maps.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// Numbers of the driver's interface. Elements beyond an operand are zeros whatever their type is, and a
// sector of L2 that is missing is fetched with its neighbours.
constexpr int kNoInterleave = 0, kFetch128Bytes = 2, kFillWithZeros = 0;
// CUtensorMapDataType.
constexpr int kUint8 = 0, kUint16 = 1, kUint32 = 2, kInt32 = 3, kUint64 = 4, kInt64 = 5,
              kFloat16 = 6, kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9;

// Copies do not look at elements; types of the driver's that are missing are bytes of their size.
int tensor_map_type(ElemType elem) {
  switch (elem) {
    case ElemType::f16: return kFloat16;
    case ElemType::bf16: return kBfloat16;
    case ElemType::f32: return kFloat32;
    case ElemType::f64: return kFloat64;
    case ElemType::i32: return kInt32;
    case ElemType::i64: return kInt64;
    default: break;
  }
  switch (bits_of(elem)) {
    case 16: return kUint16;
    case 32: return kUint32;
    case 64: return kUint64;
    default: return kUint8;
  }
}

}  // namespace

void require_tensor_maps(const DriverFunctions& driver, const std::string& entry) {
  // Both came with the same version.
  if (driver.tensor_map_encode != nullptr && driver.tensor_map_encode_im2col != nullptr) return;
  throw DeviceError(
      fmt::format("kernel '{}' copies by tensor maps, for which the CUDA driver has no "
                  "'cuTensorMapEncodeTiled': that of CUDA 12.0 or newer has",
                  entry));
}

// A result by value would be a temporary of the caller's, which GCC 12 does not align.
void encode_tensor_map(const DriverFunctions& driver, const TensorMapValues& map,
                       DeviceAddress address, const std::string& entry, EncodedTensorMap& encoded) {
  uint64_t dims[kMaxTensorRank] = {}, strides[kMaxTensorRank] = {};
  uint32_t box[kMaxTensorRank] = {}, steps[kMaxTensorRank] = {};
  const size_t rank = std::min<size_t>(static_cast<size_t>(map.rank), kMaxTensorRank);
  for (size_t d = 0; d < rank; ++d) {
    dims[d] = static_cast<uint64_t>(map.dims[d]);
    box[d] = static_cast<uint32_t>(map.box[d]);
    steps[d] = 1;
    if (d > 0) strides[d - 1] = static_cast<uint64_t>(map.strides[d]);
  }
  // The driver's arrays of corners begin with the width, as its dimensions do with the channels.
  int lower[kMaxPixelRank] = {}, upper[kMaxPixelRank] = {};
  for (size_t x = 0; map.pixels && x + 2 < rank; ++x) {
    lower[x] = static_cast<int>(map.pixels->lower[x]);
    upper[x] = static_cast<int>(map.pixels->upper[x]);
    steps[x + 1] = static_cast<uint32_t>(map.pixels->steps[x]);
  }
  const int type = tensor_map_type(map.elem), swizzle = static_cast<int>(map.swizzle);
  const auto dimensions = static_cast<uint32_t>(rank);
  const int status =
      map.pixels
          ? driver.tensor_map_encode_im2col(&encoded, type, dimensions, address, dims, strides,
                                            lower, upper, box[0], box[1], steps, kNoInterleave,
                                            swizzle, kFetch128Bytes, kFillWithZeros)
          : driver.tensor_map_encode(&encoded, type, dimensions, address, dims, strides, box, steps,
                                     kNoInterleave, swizzle, kFetch128Bytes, kFillWithZeros);
  if (status == 0) return;
  const std::string problem = tensor_map_problem(map, address);
  driver.check(status, fmt::format("kernel '{}': a tensor map{}{}", entry,
                                   problem.empty() ? "" : ", because ", problem));
}

}  // namespace tilewright::cuda
