// The forms of all weights of a workload.
#pragma once

#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// `workload.weight`, and behind it the same form of each further weight of the shape and the element
// type of that one, with scales and zero points where it has them: gate and up of a gated layer are
// stored alike. Their buffers are named after the weight: "U", "U.scale", "U.zero". Empty where the
// workload has no weight in a form of its own.
std::vector<WeightFormat> weight_formats(const Workload& workload);

}  // namespace tilewright
