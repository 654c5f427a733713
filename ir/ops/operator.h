// The table of named operators: their keys, their operands and the function that builds the
// workload.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/ops/spec.h"

namespace tilewright {

enum class KeyKind : uint8_t {
  Flag,      // true or false                                      -> bool
  Size,      // a dimension, maybe a range                         -> DimSize
  Count,     // a whole number in [min, max]                       -> int64_t
  Number,    // a finite number in (0, 1e30)                       -> double
  Choice,    // one of `choices`                                   -> std::string
  Text,      // one count for all axes, or `AxB`, one per axis     -> std::vector<int64_t>
  Extents,   // one count for all axes, or `AxB`, one per axis      -> std::vector<int64_t>
  Shape,     // a list of sizes                                    -> std::vector<DimSize>
  Ints,      // a list of whole numbers in [min, max]              -> std::vector<int64_t>
  Names,     // a list of `choices`, or of identifiers when empty  -> std::vector<std::string>
  Sparsity,  // `none` or `N:M`                                    -> std::string
  // Maps whose keys the user chooses, such as `dims.i`:
  SizeMap,   // each a Size
  ElemMap,   // each a Choice
  ShapeMap,  // each a Shape
};

struct KeyDef {
  std::string name;
  KeyKind kind;
  std::string doc;  // one line
  bool required = false;
  std::optional<SpecValue> fallback = std::nullopt;  // absent: the key has no default of its own
  std::vector<std::string> choices = {};
  int64_t min = 0;
  int64_t max = int64_t{1} << 20;

  bool is_map() const {
    return kind == KeyKind::SizeMap || kind == KeyKind::ElemMap || kind == KeyKind::ShapeMap;
  }
};

struct Operator {
  std::string name;
  std::string summary;
  std::string operands;  // "A[batch,m,k] B[batch,k,n] C[batch,m,n], bias[n], D[batch,m,n]"
  std::string example;   // inline text
  std::vector<KeyDef> keys;
  // Checks keys against each other and brings specs of equal meaning to one form; throws
  // ops::KeyError.
  void (*normalize)(Spec& spec);
  // Throws ops::KeyError or SpecError for a spec that cannot be built.
  Workload (*build)(const Spec& spec);

  const KeyDef* find_key(const std::string& dotted) const;
};

// All operators, in the order of the documentation.
const std::vector<Operator>& operators();
const Operator* find_operator(const std::string& name);

// The value as inline text: "512", "16..4096", "3x5", "[bias,relu]".
std::string to_string(const SpecValue& value);

}  // namespace tilewright
