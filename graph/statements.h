// Workloads as the statements of an `expr`.
#pragma once

#include <vector>

#include "ir/ops/expr/expr_syntax.h"
#include "ir/tensor_expr.h"

namespace tilewright::graph {

// A statement per stage of the workload. Empty where the text of a stage is none of an `expr`.
std::vector<ops::Statement> statements_of(const Workload& workload);

}  // namespace tilewright::graph
