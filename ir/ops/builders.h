// The rows of the table of operators, one function per family.
#pragma once

#include <vector>

#include "ir/ops/operator.h"

namespace tilewright::ops {

std::vector<Operator> matmul_operators();
std::vector<Operator> grouped_matmul_operators();
std::vector<Operator> gated_mlp_operators();
std::vector<Operator> convolution_operators();
std::vector<Operator> normalization_operators();
std::vector<Operator> attention_operators();
std::vector<Operator> reduction_operators();
std::vector<Operator> elementwise_operators();
std::vector<Operator> gather_operators();
std::vector<Operator> expr_operators();

std::vector<Operator> join_operators(std::vector<std::vector<Operator>> lists);

}  // namespace tilewright::ops
