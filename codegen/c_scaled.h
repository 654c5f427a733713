// Codes of a few bits as floats that a power of two multiplies: masks and conversions make them where
// they stand in their words, and the power is taken off what they are multiplied with.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/c_types.h"

namespace tilewright {

// The exponent e of helper "scaled_words", which gives code * 2^e as f32 lanes for the codes of `type`
// whose lowest bits stand at bit `shift` of neighbouring words of 32 bits; nothing where there is no
// such helper, or a permutation of the table of all values is better.
std::optional<int> scaled_exponent(Type type, int shift, const Target& target);

// The text of helper "scaled_words", "" for other ops. It takes where the words begin and `shift`,
// which has to be a constant.
std::string scaled_helper(Prelude& prelude, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

}  // namespace tilewright
