// Activations that a kernel quantizes row by row before it multiplies them.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// `a.dtype`: how the other operand is quantized.
std::vector<KeyDef> activation_keys();
// type_keys() whose `dtype` may be an integer of fewer than 8 bits, too (NarrowRows).
std::vector<KeyDef> type_keys_with_narrow_rows();
// Checks the `a` keys against the types and the weight, and gives a product of operands of fewer than
// 8 bits the weight that its `dtype` stands for. Comes before normalize_weight.
void normalize_activation(Spec& spec);

// An operand of floats as integers with a scale a row:
//
//   NAME_max[row] = max over k of |NAME|
//   NAME_scale[row] = NAME_max / 127                           (i8: the most that is used)
//   NAME_q[row, k] = NAME / NAME_scale, rounded to nearest even within [-127, 127]
//
// all in f32, so that each element is defined to the bit; a row that is all zeros, or so small that
// its scale is 0 in f32, has zeros. None of it counts as work of the operator.
class QuantizedRows {
 public:
  // `read` is the operand's element at a row and a place along `k`.
  QuantizedRows(WorkloadBuilder& b, const std::string& name, ElemType elem,
                const std::vector<Axis>& rows, const Axis& k, const ReduceFn& read);

  const Buffer& codes() const { return codes_; }
  // By the row's indices.
  const Buffer& scale() const { return scale_; }

 private:
  Buffer codes_, scale_;
};

// Whether the spec's `dtype` is an integer of fewer than 8 bits, several of which share a byte.
bool has_narrow_rows(const Spec& spec);

// An operand of such integers as bytes, which every target multiplies:
//
//   NAME_value[row, k] = i8(NAME)
//
// i8 holds all values of i4, u4, i1 and u1. It does not count as work of the operator, and a kernel
// whose instructions take the elements as they are may do without it.
Buffer narrow_rows_as_bytes(WorkloadBuilder& b, const std::string& name,
                            const std::vector<Axis>& rows, const Axis& k, const ReduceFn& read);

}  // namespace tilewright::ops
