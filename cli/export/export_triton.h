// Tiles of GPU kernels as Triton: a module in Python for those who compile with Triton.
#pragma once

#include <string>

#include "ir/tensor_expr.h"
#include "kernel/target.h"

namespace tilewright::cli {

/// NAME_triton.py: a product of two matrices with the tiles, warps, stages, parts of k and order of
/// tiles that the config chooses. `config` is a JSON object with the choices of a kernel for the
/// target. Epilogues and weights of 4 and 8 bits are part of the text; comments name the choices
/// that it leaves to Triton's compiler. Throws UsageError for other workloads, types and ways.
std::string triton_source(const Workload& workload, const std::string& config, const Target& target,
                          const std::string& origin);

}  // namespace tilewright::cli
