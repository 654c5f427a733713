// Precision by request: a graph of f32 whose products have factors of narrower types.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "graph/precision/codes.h"
#include "graph/precision/groups.h"
#include "graph/precision/products.h"
#include "ir/oracle/evaluate.h"

namespace tilewright::graph {

// The types of the factors of products.
struct Precision {
  // "f32", "bf16", "i8", or the type of weights with the terms that share a scale, "u4:128", "i8:-1"; ":i8" behind
  // that makes the other factor i8, too. Throws UsageError that names what is accepted.
  static Precision parse(const std::string& text);

  std::string text = "f32";
  ElemType factors = ElemType::f32;  // f32, bf16 or i8
  std::optional<WeightForm> weights;

  bool is_narrow() const { return factors != ElemType::f32 || weights.has_value(); }
  // By default, the share of an output's largest magnitude by which it may be off.
  double tolerance() const;
};

// The passes of a precision; the products of `kept` stay f32. Constants are computed.
Changed apply(Graph* graph, const Precision& precision, const Ranges* ranges, const Kept& kept,
              const Oracle::ParallelFn& parallel = {});

}  // namespace tilewright::graph
