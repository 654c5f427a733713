// Vectors whose lanes each look up one of a few neighbours by permutation. The positions are stored
// as codes of a few bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// Whether a vector of 32 16-bit elements can be looked up at codes of type `place`. The codes stand
// at the same bit position of consecutive words, `per_word` codes in each.
bool has_neighbours(ElemType place, int64_t per_word);

// The text of helper "four_neighbours_<bits>" for a vector of type's elements, "" for other ops.
// The helper takes the address of the neighbours, the address of words of <bits> bits, and the bit
// position of the code in each word. It returns elements in stored form.
std::string neighbours_helper(Prelude& prelude, const std::string& op, Type type,
                              std::map<std::string, std::string> values);

}  // namespace tilewright
