// Shared parts of the lists of passes.
#pragma once

#include <vector>

#include "codegen/lowering.h"

namespace tilewright {

// The simplified program; throws LoweringError where it does nothing at all.
Program simplify_program(const Program& program);

// Runs the passes of a list that are not switched off, and holds each one to the statement limit.
Program run_passes(const std::vector<Pass>& passes, const Program& program, const Target& target,
                   const LoweringOptions& options);

}  // namespace tilewright
