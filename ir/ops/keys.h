// Keys that many operators share, and the conversion of raw values to the values of a key.
#pragma once

#include <string>
#include <vector>

#include "ir/ops/operator.h"
#include "ir/ops/raw_value.h"

namespace tilewright::ops {

// Sizes lie in [1, kMaxSize]. No tensor has more than kMaxSize elements, and no stage more than
// kMaxPoints points.
inline constexpr int64_t kMaxSize = int64_t{1} << 40;
inline constexpr int64_t kMaxPoints = int64_t{1} << 62;

// Converts `raw` to the value type of `key` (spelled `dotted`); throws KeyError.
SpecValue convert(const KeyDef& key, const std::string& dotted, const RawValue& raw);

// The element type that the spec gives under this key.
ElemType elem_under(const Spec& spec, const char* key);
// Throws KeyError where the zero points under this key do not suit codes of this type.
void check_zero(const Spec& spec, const std::string& key, ElemType type);

KeyDef size_key(std::string name, std::string doc);  // required
KeyDef count_key(std::string name, std::string doc, int64_t fallback, int64_t min);
KeyDef extents_key(std::string name, std::string doc, int64_t fallback, int64_t min);
KeyDef flag_key(std::string name, std::string doc);  // false by default
// A key without a default: an absent one is derived, or stands for nothing.
KeyDef optional_key(std::string name, KeyKind kind, std::string doc);
KeyDef derived_count(std::string name, std::string doc, int64_t min = 1);
KeyDef choice_key(std::string name, std::string doc, std::vector<std::string> choices,
                  std::string fallback);
// `dtype`, `acc` and `out`.
std::vector<KeyDef> type_keys(bool floats_only = false);
KeyDef dtype_key(bool floats_only = false);
KeyDef epilogue_key();
// `w.dtype`, `w.group`, …: the storage format of the constant operand.
std::vector<KeyDef> weight_keys();
// Names of the element types that operands may have.
const std::vector<std::string>& operand_types(bool floats_only);

std::vector<KeyDef> join(std::vector<std::vector<KeyDef>> lists);

// Fills in `acc` and `out` from `dtype`; throws for accumulators that cannot hold the inputs.
void normalize_types(Spec& spec);
// Throws for an epilogue that names a step twice, or a float function over integers.
void normalize_epilogue(Spec& spec);
// Checks the `w` keys against each other and fills in those that depend on others. Drops them all
// when they describe a plain dense weight.
void normalize_weight(Spec& spec);
bool has_weight_format(const Spec& spec);

}  // namespace tilewright::ops
