// Vectors whose lanes each look up one of a few neighbours, at places that are stored as codes of a
// few bits: permutations of these neighbours.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "codegen/c_types.h"

namespace tilewright {

// Whether a vector of 32 elements of 16 bits can be looked up at codes of type `place` that stand
// in the same place of neighbouring words, with so many codes in each.
bool has_neighbours(ElemType place, int64_t per_word);

// The text of helper "four_neighbours_<bits>" for a vector of type's elements, "" for other ops. It
// takes where the neighbours begin, where the words of so many bits do, and the place of the code
// in each, in bits; it gives the elements as stored.
std::string neighbours_helper(Prelude& prelude, const std::string& op, Type type,
                              std::map<std::string, std::string> values);

}  // namespace tilewright
