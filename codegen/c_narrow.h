// Helpers of generated C that convert stored elements which a processor does not compute with: types
// of fewer than 32 bits. c_packed.h has those that read and write elements which share a byte.
#pragma once

#include <map>
#include <string>

#include "codegen/c_types.h"

namespace tilewright {

// The text of one of these helpers, or "" for another name. `type.elem` is the stored type; its
// values are 32-bit lanes (see compute_elem).
//   from, to        one element's bits to its value and back, rounded as round_to() has it
//   widen           the values of a vector of stored elements
//   narrow          f32 lanes as a vector of stored elements, rounded
// The placeholders of `values` that all helpers have are filled in.
std::string narrow_helper(Prelude& prelude, const Target& target, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

// True where a vector of this type is read or written by `widen` or `narrow`, else lane by lane.
bool has_widen(ElemType elem, int lanes, const Target& target);
bool has_narrow(ElemType elem, int lanes, const Target& target);

// `text` with each {key} replaced by its value.
std::string fill_template(std::string text, const std::map<std::string, std::string>& values);

}  // namespace tilewright
