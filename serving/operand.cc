#include "serving/operand.h"

#include <fmt/format.h>

#include <array>

#include "serving/status.h"

namespace tilewright::serving {
namespace {

struct TypeRow {
  ElemType elem;
  uint8_t code;
};

// nf4 has no name in DLPack: its codes go as integers of 4 bits.
constexpr std::array kTypes = {
    TypeRow{ElemType::f64, kDLFloat},
    TypeRow{ElemType::f32, kDLFloat},
    TypeRow{ElemType::f16, kDLFloat},
    TypeRow{ElemType::bf16, kDLBfloat},
    TypeRow{ElemType::f8e4m3, 10 /* e4m3fn */},
    TypeRow{ElemType::f8e5m2, 12},
    TypeRow{ElemType::e8m0, 14},
    TypeRow{ElemType::f4e2m1, 17},
    TypeRow{ElemType::i64, kDLInt},
    TypeRow{ElemType::i32, kDLInt},
    TypeRow{ElemType::i16, kDLInt},
    TypeRow{ElemType::i8, kDLInt},
    TypeRow{ElemType::i4, kDLInt},
    TypeRow{ElemType::i2, kDLInt},
    TypeRow{ElemType::i1, kDLInt},
    TypeRow{ElemType::u64, kDLUInt},
    TypeRow{ElemType::u32, kDLUInt},
    TypeRow{ElemType::u16, kDLUInt},
    TypeRow{ElemType::u8, kDLUInt},
    TypeRow{ElemType::u4, kDLUInt},
    TypeRow{ElemType::u2, kDLUInt},
    TypeRow{ElemType::u1, kDLUInt},
    TypeRow{ElemType::boolean, 6},
    TypeRow{ElemType::nf4, kDLUInt},
    TypeRow{ElemType::index, kDLInt},
};

bool same(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

constexpr DLDataType kBytes = {kDLUInt, 8, 1};

// Elements of less than 8 bits, given as the bytes that hold them.
bool as_bytes(const Operand& operand, const DLTensor& tensor) {
  return bits_of(operand.elem) < 8 && same(tensor.dtype, kBytes);
}

[[noreturn]] void refuse(const Operand& operand, const std::string& what) {
  throw ServingError(TW_ERROR_TENSOR, fmt::format("operand '{}': {}", operand.name, what));
}

// The shape as the operand has it: "[m, 32]".
std::string shape_text(const Operand& operand, const std::vector<std::string>& dim_names) {
  std::string text;
  for (const KernelExtent& extent : operand.shape) {
    text += (text.empty() ? "" : ", ") + extent.to_c(dim_names);
  }
  return "[" + text + "]";
}

// Rows follow each other without a gap, so that a row of bytes has to be a row of elements.
int64_t row_bytes(const Operand& operand, int64_t elements) {
  if (elements * bits_of(operand.elem) % 8 != 0) {
    refuse(operand, fmt::format("given as bytes, but a row of {} {} fills no whole bytes", elements,
                                tilewright::to_string(operand.elem)));
  }
  return bytes_for(operand.elem, elements);
}

void check_alignment(const Operand& operand, const DLTensor& tensor, const Place& place) {
  auto address = reinterpret_cast<uintptr_t>(first_element(tensor));
  if (address % place.alignment == 0) return;
  refuse(operand, fmt::format("its first element is aligned to {} bytes; expected {}",
                              address & (~address + 1), place.alignment));
}

}  // namespace

int64_t extent_at(const KernelExtent& extent, const int64_t* dims) {
  int64_t sum = extent.offset;
  for (size_t d = 0; d < extent.factors.size(); ++d) sum += extent.factors[d] * dims[d];
  if (extent.divisor == 1) return sum;
  return sum / extent.divisor - (sum % extent.divisor < 0 ? 1 : 0);
}

DLDataType dl_type(ElemType elem) {
  uint8_t code = kDLOpaqueHandle;
  for (const TypeRow& row : kTypes) {
    if (row.elem == elem) code = row.code;
  }
  return {code, static_cast<uint8_t>(bits_of(elem)), 1};
}

std::string dl_type_name(DLDataType type) {
  for (const TypeRow& row : kTypes) {
    if (same(dl_type(row.elem), type)) return tilewright::to_string(row.elem);
  }
  return fmt::format("DLPack type code {} of {} bits in {} lanes", type.code, type.bits,
                     type.lanes);
}

bool Place::holds(DLDevice given) const {
  if (device == kDLCPU) return given.device_type == kDLCPU || given.device_type == kDLCUDAHost;
  return (given.device_type == kDLCUDA && given.device_id == id) ||
         given.device_type == kDLCUDAManaged;
}

std::string to_string(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost: return "the CPU";
    case kDLCUDA: return fmt::format("GPU {}", device.device_id);
    default:
      return fmt::format("DLPack device {}:{}", static_cast<int>(device.device_type),
                         device.device_id);
  }
}

void check_kind(const Operand& operand, const DLTensor& tensor, const Place& place) {
  if (!place.holds(tensor.device)) {
    refuse(operand, fmt::format("lies on {}; expected {}", to_string(tensor.device),
                                to_string(DLDevice{place.device, place.id})));
  }
  if (!same(tensor.dtype, dl_type(operand.elem)) && !as_bytes(operand, tensor)) {
    refuse(operand, fmt::format("element type {}; expected {}", dl_type_name(tensor.dtype),
                                tilewright::to_string(operand.elem)));
  }
  if (tensor.ndim != static_cast<int32_t>(operand.shape.size())) {
    refuse(operand, fmt::format("{} dimensions; expected {}", tensor.ndim, operand.shape.size()));
  }
  if (tensor.data == nullptr) refuse(operand, "its data is null");
  if (tensor.shape == nullptr && tensor.ndim > 0) refuse(operand, "its shape is null");
}

void check_layout(const Operand& operand, const DLTensor& tensor, const int64_t* dims,
                  const std::vector<std::string>& dim_names, const Place& place) {
  int64_t stride = 1;
  for (size_t axis = operand.shape.size(); axis-- > 0;) {
    int64_t expected = extent_at(operand.shape[axis], dims);
    if (axis + 1 == operand.shape.size() && as_bytes(operand, tensor)) {
      expected = row_bytes(operand, expected);
    }
    const int64_t extent = tensor.shape[axis];
    if (extent != expected) {
      refuse(operand, fmt::format("dimension {} is {}; expected {} of {}", axis, extent, expected,
                                  shape_text(operand, dim_names)));
    }
    if (tensor.strides != nullptr && extent != 1 && tensor.strides[axis] != stride) {
      refuse(operand, fmt::format("dimension {} has stride {}; expected {}: compact and row-major",
                                  axis, tensor.strides[axis], stride));
    }
    stride *= extent;
  }
  check_alignment(operand, tensor, place);
}

}  // namespace tilewright::serving
