// Conversion of codes of at most 8 bits to the elements that instructions take. A vector takes one
// code from each of consecutive words. The words are as wide as the elements, so no value changes
// its lane.
#pragma once

#include <map>
#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// Whether a helper "codes_<to>" makes `lanes` elements of `to` from codes of `from`. Integers use
// shifts and masks. bf16 uses a lookup in 32 entries (vpermw), for 8-bit floats in 128 (vpermi2b
// where available, else vpermi2w).
bool has_codes(ElemType from, ElemType to, int lanes);
// The text of helper "codes_<to>" for a vector of type's elements, "" for other ops. The helper
// takes the address of the words and the bit position of the code in each word. It returns elements
// in stored form.
std::string codes_helper(Prelude& prelude, const std::string& op, Type type,
                         std::map<std::string, std::string> values);

}  // namespace tilewright
