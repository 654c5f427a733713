// Helpers of generated C that convert stored elements of fewer than 32 bits. Processors do not
// compute with these types. c_packed.h has the helpers for elements that share a byte.
#pragma once

#include <map>
#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// The text of one of these helpers, or "" for another name. `type.elem` is the stored type; its
// values are 32-bit lanes (see compute_elem).
//
//   from, to        one element's bits to its value and back, rounded as by round_to()
//   widen           the values of a vector of stored elements
//   spread          one stored element's value in all lanes
//   narrow          f32 lanes as a vector of stored elements, rounded
//
// On entry `values` holds the placeholders that all helpers share.
std::string narrow_helper(Prelude& prelude, const Target& target, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

// True where `widen`, `spread` or `narrow` makes a vector of this type; others go lane by lane.
bool has_widen(ElemType elem, int lanes, const Target& target);
bool has_spread(ElemType elem, int lanes, const Target& target);
bool has_narrow(ElemType elem, int lanes, const Target& target);

// `text` with each {key} replaced by its value.
std::string fill_template(std::string text, const std::map<std::string, std::string>& values);

}  // namespace tilewright
