// Copies of operands in the type in which they are multiplied.
#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.h"

namespace tilewright {

// The float type that `block` casts each of its reads of a parameter to, where a copy in that type
// can stand in for them: it holds all values of the parameter's, and no other block reads these.
// Elements of a tile are read again and again, and each time converted where nothing is copied.
std::optional<ElemType> widened_type(const Schedule& s, const Block& block,
                                     const std::string& operand);

// Whether the block reads one row of the operand, in its order: at index 0 of all dimensions but the
// last, along which an iterator runs.
bool reads_one_row(const Schedule& s, const Block& block, const std::string& operand);

// Has the weight widened when it is loaded. The name of what is read in its place.
std::string widen_at_load(Schedule& s, const std::string& weight, ElemType type);

}  // namespace tilewright
