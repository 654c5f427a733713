// Sizes of a launch on a GPU as numbers, each time it is launched.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/stmt.h"

namespace tilewright::serving {

// The value of integer arithmetic over dynamic dimensions that have these values, without
// allocating. Throws Error for an expression of another kind, whatever the values.
int64_t size_value(const Expr& size, const std::vector<DimVar>& dims, const int64_t* values);

}  // namespace tilewright::serving
