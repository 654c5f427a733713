// Codes of a few bits as floats times a power of two. Masks and conversions make the float where
// the code stands in its word. The other factor of the product absorbs the power.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// The exponent e for which helper "scaled_words" gives code * 2^e as f32 lanes. The lowest bit of
// each code of `type` stands at bit `shift` of consecutive 32-bit words. Nothing where there is no
// such helper, or where a permutation of the table of all values is better.
std::optional<int> scaled_exponent(Type type, int shift, const Target& target);

// The text of helper "scaled_words", "" for other ops. The helper takes the address of the words
// and `shift`, which must be a constant.
std::string scaled_helper(Prelude& prelude, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

}  // namespace tilewright
