// Analysis of an `expr`: its tensors, before a workload is built from it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/expr/expr_syntax.h"
#include "ir/ops/spec.h"

namespace tilewright::ops {

// One dimension of an input, as inferred from its reads.
struct InferredExtent {
  int64_t extent = 0;  // with every dimension at its maximum
  std::optional<Syntax> dynamic =
      std::nullopt;  // the index whose largest value plus one is the extent, when that varies
  std::optional<DimSize> own =
      std::nullopt;  // a dimension of its own, which is read at fixed places
};

struct TensorInfo {
  std::string name;
  size_t rank = 0;
  int written_by = -1;         // number of the statement; -1: an input
  bool used_as_index = false;  // its elements are indices of another tensor
  std::vector<std::optional<InferredExtent>> inferred =
      {};  // inputs: nothing where the reads do not tell
};

struct ExprAnalysis {
  std::vector<Statement> statements;
  std::map<std::string, DimSize> dims;
  std::vector<TensorInfo> tensors;  // in order of appearance
  std::vector<std::vector<std::string>>
      reduce_indices;  // for each statement, in order of appearance

  const TensorInfo* find(const std::string& name) const;
};

// Checks names, ranks, bounds and the order of statements; throws KeyError.
ExprAnalysis analyze_expr(const Spec& spec);

}  // namespace tilewright::ops
