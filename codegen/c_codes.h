// Codes of a few bits as the elements that instructions take: vectors of a code from each of
// neighbouring words, whose width is that of the elements, so that no lane moves.
#pragma once

#include <map>
#include <string>

#include "codegen/c_types.h"

namespace tilewright {

// Whether there is a helper "codes_<to>" that makes `lanes` elements of `to` from codes of `from`:
// integers by shifts and masks, bf16 by a look-up in 32 entries (vpermw), of floats of 8 bits in 128
// (vpermi2b where there is one, else vpermi2w).
bool has_codes(ElemType from, ElemType to, int lanes);
// The text of helper "codes_<to>" for a vector of type's elements, "" for other ops. It takes where
// the words begin and the place of the code in each, in bits, and gives the elements as stored.
std::string codes_helper(Prelude& prelude, const std::string& op, Type type,
                         std::map<std::string, std::string> values);

}  // namespace tilewright
