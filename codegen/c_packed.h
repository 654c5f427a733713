// Helpers of generated C for elements of which several share a byte: lowest bits first.
#pragma once

#include <map>
#include <string>

#include "codegen/c_types.h"

namespace tilewright {

// The text of one of these helpers, or "" for another name. `type.elem` is the stored type.
//   get, put         the bits of element i of an array; neighbours in the byte are kept
//   load_packed      the values of neighbours that begin at a byte
//   load_words       the values of one element from each of as many words of 32 bits; `shift` is
//                    where it stands in its word
//   load_packed_f32, load_words_f32
//                    the same as f32 lanes, where has_value_table() holds
//   load_packed_f16, load_words_f16, load_packed_bf16, load_words_bf16
//                    the values of a table rounded to that type, as f32 lanes, where tells_rounded() holds
// The placeholders of `values` that all helpers have are filled in.
std::string packed_helper(Prelude& prelude, const Target& target, const std::string& op, Type type,
                          std::map<std::string, std::string> values);

// True where a permutation of a table of 16 values turns codes into f32 lanes.
bool has_value_table(ElemType elem, int lanes, const Target& target);
// Types whose values are told by a table: nf4 and f4e2m1.
bool in_value_table(ElemType elem);
// Whether vectors of codes find their values, rounded to `to`, in a table of these.
bool tells_rounded(ElemType elem, ElemType to, int lanes, const Target& target);
// What the 4 bits `first`, `first` + 1, … are worth when an element stands in the lowest of them, as
// C literals, rounded to `to`.
std::string value_table(ElemType elem, int first, int count, ElemType to = ElemType::f32);

}  // namespace tilewright
