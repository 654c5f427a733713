// Activations that a kernel quantizes row by row before the product.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// `a.dtype`: the type to which the other operand is quantized.
std::vector<KeyDef> activation_keys();
// type_keys() whose `dtype` may also be an integer of fewer than 8 bits (narrow_rows_as_bytes()).
std::vector<KeyDef> type_keys_with_narrow_rows();
// Checks the `a` keys against the types and the weight. A product of operands of fewer than 8 bits
// gets the `w.dtype` that its `dtype` stands for. Must run before normalize_weight().
void normalize_activation(Spec& spec);

// Quantizes an operand of floats to integers with one scale per row:
//
//   NAME_max[row] = max over k of |NAME|
//   NAME_scale[row] = NAME_max / 127                           (i8: the most that is used)
//   NAME_q[row, k] = NAME / NAME_scale, rounded to nearest even within [-127, 127]
//
// All arithmetic is in f32, so each element is defined to the bit. A row that is all zeros, or so
// small that its scale is 0 in f32, has zeros. None of it counts as work of the operator.
class QuantizedRows {
 public:
  // `read` gives the operand's element at a row and an index along `k`.
  QuantizedRows(WorkloadBuilder& b, const std::string& name, ElemType elem,
                const std::vector<Axis>& rows, const Axis& k, const ReduceFn& read);

  const Buffer& codes() const { return codes_; }
  // Indexed by the row's indices.
  const Buffer& scale() const { return scale_; }

 private:
  Buffer codes_, scale_;
};

// True when the spec's `dtype` is an integer of fewer than 8 bits, several of which share a byte.
bool has_narrow_rows(const Spec& spec);

// Widens an operand of such integers to bytes, which every target multiplies:
//
//   NAME_value[row, k] = i8(NAME)
//
// i8 holds all values of i4, u4, i1 and u1. The stage does not count as work of the operator. A
// kernel whose instructions take the narrow elements directly may omit it.
Buffer narrow_rows_as_bytes(WorkloadBuilder& b, const std::string& name,
                            const std::vector<Axis>& rows, const Axis& k, const ReduceFn& read);

}  // namespace tilewright::ops
