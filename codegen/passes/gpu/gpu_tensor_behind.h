// Software-pipelined products: those of an iteration are issued behind those of the next one
// (codegen/cuda/instructions/cuda_wgmma_flight.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// An iteration of a pipelined loop, without its copies, whose last product is issued an iteration
// later.
struct BehindIteration {
  std::vector<Stmt> ahead;   // up to the last product that is not late
  Stmt late;                 // the late product
  std::vector<Stmt> rest;    // the others; those that need the late product's registers last
  std::vector<Buffer> own;   // allocated per iteration
  std::vector<Buffer> kept;  // operands of the late product, which outlive an iteration

  // The statements of one iteration, each placed by `at`. They include the late product of the
  // iteration before where `late_before` is defined. Buffers of its own are allocated around them.
  Stmt iteration(const std::function<Stmt(const Stmt&)>& at, const Stmt& late_before) const;
};

// Splits the uses of a pipelined loop's stages, which allocate `own` in each iteration. Nothing
// where no product is to be late. Throws LoweringError where such a product cannot be.
std::optional<BehindIteration> take_behind(const ForNode& loop, const std::vector<Stmt>& uses,
                                           const std::vector<Buffer>& own);

}  // namespace tilewright
