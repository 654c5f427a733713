// Lowering: from a scheduled program of blocks to loops that a printer writes one to one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/arith/size_facts.h"
#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

// A legal program that cannot be lowered as scheduled (through endless unrolling, say). The tuner
// counts it as an illegal candidate.
class LoweringError : public Error {
 public:
  using Error::Error;
};

struct LoweringOptions {
  // Names of passes that are switched off, for tests that compare with and without.
  std::vector<std::string> without;
  // The pass after which lowering stops; empty: the last one. Only complete programs can be printed.
  std::string last;
  // Limit on the statements that unrolling and partitioning may make of one program; a program that
  // exceeds it is refused.
  int max_statements = 6000;
  // Called after each pass with its name, the program and the seconds it took.
  std::function<void(const std::string&, const Program&, double)> observe;
};

// The options, with an observer that writes to `facts` what the program says of its dynamic
// dimensions. It reads the program just before its buffers are flattened: an access then has one
// index per dimension, to check against its extent. Programs without dynamic dimensions write
// nothing.
LoweringOptions with_size_facts(LoweringOptions options, SizeFacts* facts);

// The passes in order; each keeps the program's meaning. Passes that printing needs (`required`)
// cannot be switched off.
struct Pass {
  std::string name;
  bool required;
  std::function<Program(const Program&, const Target&, const LoweringOptions&)> run;
};
const std::vector<Pass>& cpu_passes();

// Runs all passes. The result has no blocks, no vectorized or unrolled loops, and one-dimensional
// buffers. The interpreter still runs it.
Program lower_for_cpu(const Program& program, const Target& target,
                      const LoweringOptions& options = {});

// The passes themselves (codegen/passes/*.cc) --------------------------------------------------

// Turns blocks into loops and ifs; allocates each buffer at the innermost loop that holds its uses.
Program lower_blocks(const Program& program);
// Shrinks each allocated buffer to the box that is live inside its allocation.
Program compact_buffers(const Program& program);
// Names the quotients and remainders of a fused parallel loop: let i = floordiv(f, 8) { let j =
// floormod(f, 8) { … } }. Loops can then be partitioned by them.
Program name_fused_indices(const Program& program);
// Separates the whole tiles of a dynamic axis from its tail. Where the rows of the tail are
// unrolled, each number of them has its code: if left > 5 { … } else if left == 5 { … } ….
Program peel_dynamic_tails(const Program& program);
// Splits loops where a condition inside changes from always true to sometimes true. Most iterations
// then run without it.
Program partition_loops(const Program& program);
// Gives each access one row-major index.
Program flatten_buffers(const Program& program);
// Turns loops that tensorize has marked into one vector operation. Throws LoweringError where a
// loop is no longer what the intrinsic computes, or the target lacks the intrinsic.
Program lower_intrinsics(const Program& program, const Target& target);
// Turns vectorized loops into vector expressions of at most the target's width, masked where a
// condition depends on the lane.
Program vectorize_loops(const Program& program, const Target& target);
Program unroll_loops(const Program& program, int max_statements);
// Keeps elements in registers while a loop runs that reads and writes them at addresses that do not
// change in it.
Program promote_accumulators(const Program& program);
// Starts the registers of such a loop with the values stored just before it and overwritten after
// it.
Program start_accumulators(const Program& program);
// Turns terms of a sum that a condition makes zero into branches around them. Moves the branches
// out of loops that do not change the condition: a convolution does no work for its padding. The
// factor of such a zero is not read, so an infinity or NaN there does not reach the sum.
Program skip_zero_terms(const Program& program);

}  // namespace tilewright
