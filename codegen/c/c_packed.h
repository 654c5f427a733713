// Helpers of generated C for elements that share a byte, lowest bits first.
#pragma once

#include <map>
#include <string>

#include "codegen/c/c_types.h"

namespace tilewright {

// The text of one of these helpers, or "" for another name. `type.elem` is the stored type.
//
//   get, put         the bits of element i of an array; put keeps its neighbours in the byte
//   load_packed      the values of consecutive elements that begin at a byte
//   load_words       the values of one element from each of consecutive 32-bit words; `shift` is
//                    its bit position in the word
//   load_packed_f32, load_words_f32
//                    the same as f32 lanes, where has_value_table() holds
//   load_packed_f16, load_words_f16, load_packed_bf16, load_words_bf16
//                    the values of a table rounded to that type, as f32 lanes, where
//                    tells_rounded() holds
//
// On entry `values` holds the placeholders that all helpers share.
std::string packed_helper(Prelude& prelude, const Target& target, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

// True where a permutation of a table of 16 values converts codes to f32 lanes.
bool has_value_table(ElemType elem, int lanes, const Target& target);
// Types whose values stand in a table: nf4 and f4e2m1.
bool in_value_table(ElemType elem);
// Whether a table gives vectors of codes their values, rounded to `to`.
bool tells_rounded(ElemType elem, ElemType to, int lanes, const Target& target);
// The values of the 4-bit patterns `first`, `first` + 1, … as C literals, rounded to `to`. The
// element stands in the lowest bits of its pattern.
std::string value_table(ElemType elem, int first, int count, ElemType to = ElemType::f32);

}  // namespace tilewright
