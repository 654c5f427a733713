// Products of an iteration that are asked for behind those of the next one (codegen/cuda_wgmma_flight.h).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/stmt.h"

namespace tilewright {

// An iteration of a pipelined loop, without its copies, whose last product comes an iteration later.
struct BehindIteration {
  std::vector<Stmt> ahead;   // up to the last product that does not
  Stmt late;                 // the one that does
  std::vector<Stmt> rest;    // what needs the late one's registers last
  std::vector<Buffer> own;   // of an iteration
  std::vector<Buffer> kept;  // operands of the late product, which outlive one

  // The statements of one iteration, with the late product of the one before where that is defined, after
  // `at` has put each where it runs. Buffers of its own are allocated around.
  Stmt iteration(const std::function<Stmt(const Stmt&)>& at, const Stmt& late_before) const;
};

// The uses of a pipelined loop's stages, which allocate `own` in each iteration, taken apart; nothing where
// no product is to stand behind. Throws LoweringError where one cannot.
std::optional<BehindIteration> take_behind(const ForNode& loop, const std::vector<Stmt>& uses,
                                           const std::vector<Buffer>& own);

}  // namespace tilewright
