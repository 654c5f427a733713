// Groups of asynchronous matrix instructions that run beside other statements.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda_wgmma_nest.h"

namespace tilewright {

/// The lines that ask for the nest's group, with nothing that waits for it: wgmma_end_lines() do.
std::vector<std::string> wgmma_issue_lines(const WgmmaNest& nest, CudaExpr& expr);

/// Whether a statement may run while the nest's group is in flight: it has to do with registers alone,
/// reads none of the sums, and changes neither these nor an operand A.
bool runs_beside(const Stmt& s, const WgmmaNest& nest);

}  // namespace tilewright
