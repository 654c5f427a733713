// Activations that a kernel quantizes row by row before it multiplies them.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// `a.dtype`: how the other operand is quantized.
std::vector<KeyDef> activation_keys();
// Checks the `a` keys against the types and the weight. Comes before normalize_weight.
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

}  // namespace tilewright::ops
