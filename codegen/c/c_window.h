// Vectors of elements that stand anywhere among the next few of a buffer: permutations of two
// vectors of neighbours.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// The text of a helper for a vector of type's elements in stored form, "" for other ops.
// "pick<N>" takes the address of N neighbours, and each lane's position among them as unsigned integers as wide
// as an element. "second" takes the address of an element, and gives this and every second one behind it;
// "second_head" takes the number of lanes, too, and gives zeros in the others.
std::string window_helper(Prelude& prelude, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

// The unsigned integer type as wide as an element of 16 or 32 bits; nothing for other widths.
std::optional<ElemType> word_of_element(ElemType elem);

}  // namespace tilewright
