// Copies of operands in the type in which they are multiplied.
#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.h"

namespace tilewright {

// The float type to which `block` casts each of its reads of a parameter, if a copy in that type
// can replace them. The type must hold all of the parameter's values, and no other block may read
// the parameter. Elements of a tile are read repeatedly, and converted each time without a copy.
std::optional<ElemType> widened_type(const Schedule& s, const Block& block,
                                     const std::string& operand);

// Whether the block reads one row of the operand in order. All indices but the last are 0, and an
// iterator runs along the last.
bool reads_one_row(const Schedule& s, const Block& block, const std::string& operand);

// Widens the weight at load. Returns the name of the buffer that is read instead.
std::string widen_at_load(Schedule& s, const std::string& weight, ElemType type);

}  // namespace tilewright
