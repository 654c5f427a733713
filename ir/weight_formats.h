// The storage formats of all weights of a workload.
#pragma once

#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// `workload.weight`, followed by the same format for each further weight of the same shape and
// element type. Such a weight has scales, zero points and offsets where the first one has them. The
// gate and up weights of a gated layer (dual GEMM) are stored alike. Buffers are named after the weight:
// "U", "U.scale", "U.zero". Empty where the workload's weight has no storage format of its own.
std::vector<WeightFormat> weight_formats(const Workload& workload);

}  // namespace tilewright
