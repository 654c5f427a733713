// Helpers that reduce the lanes of vectors (CallOp::LaneSum, CallOp::LaneMax).
#pragma once

#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// The text of the function `name`, which takes `count` vectors of this type and returns a vector of
// as many lanes: lane l is the sum or the maximum (`is_sum`) of the lanes of vector l. Both counts of
// lanes are powers of two.
std::string lane_reduction(Prelude& prelude, const std::string& name, bool is_sum, Type vector,
                           int count);

}  // namespace tilewright
