// Operands of a served kernel as the caller's tensors, and the checks of these tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/kernel_source.h"
#include "tilewright/tilewright.h"

namespace tilewright::serving {

constexpr size_t kMaxDims = 8;       // dynamic dimensions of a spec
constexpr size_t kMaxOperands = 32;  // and parameters of a kernel

// An extent where the dynamic dimensions have these values, without allocating.
int64_t extent_at(const KernelExtent& extent, const int64_t* dims);

struct Operand {
  std::string name;
  ElemType elem = ElemType::f32;
  ParamRole role = ParamRole::Input;
  std::vector<KernelExtent> shape;  // over the dynamic dimensions of the spec
  // For callers:
  std::vector<int64_t> known_shape;  // -1 where it depends on them
  int packed = 0;                    // as tw_operand says
};

// How DLPack calls an element type; codes without a name there are unsigned integers.
DLDataType dl_type(ElemType elem);
// "f32", or its numbers where no element type is meant.
std::string dl_type_name(DLDataType type);

// Where a kernel's tensors lie.
struct Place {
  DLDeviceType device = kDLCPU;
  int32_t id = 0;
  uintptr_t alignment = 64;

  bool holds(DLDevice device) const;
};
std::string to_string(DLDevice device);

// Checks all but the extents: device, element type, number of dimensions, null data. Throws
// ServingError that names the operand.
void check_kind(const Operand& operand, const DLTensor& tensor, const Place& place);
// Checks extents, strides and alignment against the operand at these sizes. Requires check_kind.
void check_layout(const Operand& operand, const DLTensor& tensor, const int64_t* dims,
                  const std::vector<std::string>& dim_names, const Place& place);

inline void* first_element(const DLTensor& tensor) {
  return static_cast<char*>(tensor.data) + tensor.byte_offset;
}

}  // namespace tilewright::serving
