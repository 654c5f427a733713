// Lowering: from a scheduled program of blocks to loops that a printer writes down one to one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "ir/error.h"
#include "ir/size_facts.h"
#include "ir/stmt.h"

namespace tilewright {

// A legal program that cannot be lowered as scheduled (an endless unrolling, say). The tuner counts
// it as an illegal candidate.
class LoweringError : public Error {
 public:
  using Error::Error;
};

struct LoweringOptions {
  // Passes that are switched off, by name; for tests that compare with and without.
  std::vector<std::string> without;
  // Statements that unrolling and partitioning may make of one program before it is refused.
  int max_statements = 6000;
  // Called after each pass with its name, the program and the seconds it took.
  std::function<void(const std::string&, const Program&, double)> observe;
};

// The options that also leave in `facts` what the program says of its dynamic dimensions, as it is just
// before its buffers are flattened: an access then has an index for each dimension, to be proved
// against its extent. Programs without dynamic dimensions leave nothing.
LoweringOptions with_size_facts(LoweringOptions options, SizeFacts* facts);

// The passes in order, each one keeping the program's meaning. Those that are needed for printing
// (`required`) cannot be switched off.
struct Pass {
  std::string name;
  bool required;
  std::function<Program(const Program&, const Target&, const LoweringOptions&)> run;
};
const std::vector<Pass>& cpu_passes();

// Runs all passes. The result has no blocks, no vectorized or unrolled loops and one-dimensional
// buffers; it still interprets.
Program lower_for_cpu(const Program& program, const Target& target,
                      const LoweringOptions& options = {});

// The passes themselves (codegen/passes/*.cc) --------------------------------------------------

// Blocks become loops and ifs; buffers are allocated at the innermost loop that holds their uses.
Program lower_blocks(const Program& program);
// Shrinks each allocated buffer to the box that is alive inside its allocation.
Program compact_buffers(const Program& program);
// Names the quotients and remainders of a fused parallel loop, so that loops can be partitioned
// by them: let i = floordiv(f, 8) { let j = floormod(f, 8) { … } }.
Program name_fused_indices(const Program& program);
// Separates the whole tiles of a dynamic axis from its tail, for which there is code for each number
// of rows in it where these are unrolled: if left > 5 { … } else if left == 5 { … } ….
Program peel_dynamic_tails(const Program& program);
// Splits loops where a condition inside changes from always true to sometimes true, so that the
// bulk of the iterations runs without it.
Program partition_loops(const Program& program);
// One index an access; row-major.
Program flatten_buffers(const Program& program);
// Loops that tensorize has marked become one operation on vectors; throws LoweringError where they
// are no longer what the intrinsic computes, or the target lacks it.
Program lower_intrinsics(const Program& program, const Target& target);
// Vectorized loops become vector expressions of at most the target's width, masked where a
// condition depends on the lane.
Program vectorize_loops(const Program& program, const Target& target);
Program unroll_loops(const Program& program, int max_statements);
// Elements that a loop reads and writes at addresses that do not change in it live in registers
// while it runs.
Program promote_accumulators(const Program& program);
// What is stored just before such a loop, and written over after it, starts in its registers.
Program start_accumulators(const Program& program);
// Terms of a sum that are zero by a condition become branches around them, moved out of loops that
// do not change the condition: a convolution does no work for its padding. What is multiplied by
// such a zero is not looked at, so an infinity or NaN there does not reach the sum.
Program skip_zero_terms(const Program& program);

}  // namespace tilewright
