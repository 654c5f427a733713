// Names of dynamic dimensions.
#pragma once

#include <cstddef>
#include <string>

namespace tilewright {

// The name of the dimension that a key of a spec gives: that of the index, the tensor's with the axis of a shape
// of an expression, the axis' of another shape, else the key's own.
std::string dim_name(const std::string& key, size_t axis = 0);

}  // namespace tilewright
