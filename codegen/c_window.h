// Vectors of elements that stand anywhere among the next few of a buffer: permutations of two
// vectors of neighbours.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/c_types.h"

namespace tilewright {

// The text of helper "pick<N>" for a vector of type's elements, "" for other ops. It takes where N
// neighbours begin and, in a vector of unsigned integers as wide as an element, which of them each
// lane is; it gives the elements as stored.
std::string window_helper(Prelude& prelude, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

// The unsigned integer as wide as an element of 16 or 32 bits; nothing for others.
std::optional<ElemType> word_of_element(ElemType elem);

}  // namespace tilewright
