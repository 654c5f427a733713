// A schedule: a module under rewriting, and the trace of the rewrites.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/index_map.h"
#include "ir/stmt.h"
#include "schedule/error.h"
#include "schedule/trace.h"

namespace tilewright {

// Loops and blocks are named; the names are unique in the program (a loop's is its variable's).
// Handles are only names, so they stay valid as long as the thing itself does and can be printed,
// stored and compared.
struct Loop {
  std::string name;
  bool operator==(const Loop&) const = default;
};
struct Block {
  std::string name;
  bool operator==(const Block&) const = default;
};

// The primitives. Each one is a record of its own (schedule/primitives/*.h: its arguments, apply,
// text and JSON form); a method here makes the record, applies it to the main program and appends
// it to the trace. A method either succeeds or throws ScheduleError and changes nothing.
class Schedule {
 public:
  explicit Schedule(Module module);
  explicit Schedule(Program main) : Schedule(Module{std::move(main), {}}) {}

  const Module& module() const { return module_; }
  const Program& program() const { return module_.main; }
  const Trace& trace() const { return trace_; }

  // Looking around -----------------------------------------------------------------------------
  Block block(const std::string& name) const;         // throws NotFound with the names there are
  std::vector<Block> blocks() const;                  // leaf blocks, in program order
  std::vector<Loop> loops(const Block& block) const;  // around the block, outermost first
  const BlockNode& node(const Block& block) const;
  const ForNode& node(const Loop& loop) const;
  // Blocks that write what `block` reads, and that read what it writes.
  std::vector<Block> producers(const Block& block) const;
  std::vector<Block> consumers(const Block& block) const;

  // Loops (schedule/primitives/loops.h) --------------------------------------------------------
  // for i in 0..n  ->  for i_0 in 0..f0 { for i_1 in 0..f1 { i = i_0*f1 + i_1 }}
  // One factor may be -1 (inferred, rounded up). Where the product exceeds the extent the blocks
  // inside get a predicate; a product below the extent is refused. New loops: "<name>_0", ….
  std::vector<Loop> split(const Loop& loop, const std::vector<int64_t>& factors);
  Loop fuse(const std::vector<Loop>& loops);     // perfectly nested, outermost first
  void reorder(const std::vector<Loop>& loops);  // of one chain; blocks stay inside
  // split twice and reorder: (i, j) -> (i_0, j_0, i_1, j_1).
  std::array<Loop, 4> tile(const Loop& i, const Loop& j, int64_t ti, int64_t tj);
  void parallel(const Loop& loop);
  void vectorize(const Loop& loop);
  void unroll(const Loop& loop);
  void bind(const Loop& loop, ForKind thread_axis);
  void annotate(const Loop& loop, const std::string& key, const Annotation& value);
  void annotate(const Block& block, const std::string& key, const Annotation& value);
  Loop add_unit_loop(const Block& block);
  // Adjacent loops of equal extent become one whose body is theirs in order, where no iteration
  // needs a later one.
  Loop merge(const std::vector<Loop>& loops);

  // Reductions (schedule/primitives/reduction.h) -----------------------------------------------
  // Splits the init off into block "<name>_init" that stands right before `loop`.
  Block decompose_reduction(const Block& block, const Loop& loop);
  // Turns reduce loop `loop` into a spatial axis of a partial result "<name>_rf" (the new axis
  // becomes dimension `factor_axis` of its buffer), then reduces that. Returns the partial block.
  Block rfactor(const Block& block, const Loop& loop, int factor_axis);
  // Pads each iterator of an einsum-like block to a multiple: copies operands into zero-padded
  // buffers and the result back. multiples: one an iterator of the block.
  void pad_einsum(const Block& block, const std::vector<int64_t>& multiples);

  // The same for a block of an intermediate whose values in the padding are those that change nothing
  // (schedule/primitives/pad_values.h).
  void pad_values(const Block& block, const std::vector<int64_t>& multiples);

  // A maximum, what is weighed with exp(x - maximum) and its sums in one loop over blocks of `factor`
  // values of their axis. Returns that loop and the blocks made
  // (schedule/primitives/online_softmax.h).
  std::pair<Loop, std::vector<Block>> online_softmax(const Block& maximum, int64_t factor);
  // The same in `parts` parts of their axis, each with a maximum of its own, which are put together
  // behind them. Returns the blocks made (schedule/primitives/split_softmax.h).
  std::vector<Block> split_softmax(const Block& maximum, int64_t parts);

  // Moving and inlining (schedule/primitives/compute_at.h, inline.h) ----------------------------
  // Moves a producer (consumer) under `loop`, over just the region that is needed there.
  void compute_at(const Block& block, const Loop& loop);
  void reverse_compute_at(const Block& block, const Loop& loop);
  void compute_inline(const Block& block);          // an injective producer into its consumers
  void reverse_compute_inline(const Block& block);  // an elementwise consumer into its producer

  // Intrinsics (schedule/primitives/tensorize.h) ------------------------------------------------
  // Marks `loop` and the loops in it as the intrinsic of that name, which computes the tensor
  // expression `computes` (schedule/tensor_match.h). Refused with the iterator that does not fit.
  void tensorize(const Loop& loop, const std::string& intrinsic, const std::string& computes);

  // Memory (schedule/primitives/cache.h, layout.h) ---------------------------------------------
  // A copy block "<buffer>_<scope>" of buffer `buffer` that `block` reads from (writes to).
  Block cache_read(const Block& block, const std::string& buffer, Scope scope);
  Block cache_write(const Block& block, const std::string& buffer, Scope scope);
  // The same of a buffer from which `block` reads what an iterator of its looks up in memory.
  Block cache_lookup(const Block& block, const std::string& buffer, Scope scope);
  void set_scope(const std::string& buffer, Scope scope);
  // Block "<buffer>_reindex", which copies an operand of `block` to (its result from) a buffer whose
  // dimensions are the block's own iterators (schedule/primitives/reindex.h).
  Block reindex(const Block& block, const std::string& buffer);
  // Lays an intermediate buffer out anew, everywhere it is used.
  void transform_layout(const std::string& buffer, const IndexMap& map);
  // Rewrites a block's iterators by a bijective map of them; its loops become the image's.
  void transform_block_layout(const Block& block, const IndexMap& map);
  // The constant operand `buffer` is laid out by `map` once, at load: adds a pack program and lets
  // main read "<buffer>_packed". Elements of the image with no logical element are zero.
  void prepack(const std::string& buffer, const IndexMap& map);
  // The N:M sparse weight `buffer` of a contraction is packed into its kept elements and their rows
  // (schedule/primitives/compress.h). The caller vouches for the pattern.
  void compress_nm(const Block& block, const std::string& buffer, int64_t keep, int64_t of,
                   int64_t vector);
  // The same for an operand that a block makes of the weight
  // (schedule/primitives/compress_operand.h). Returns the names of the kept elements and their rows.
  std::vector<std::string> compress_operand(const Block& block, const std::string& operand,
                                            const std::string& weight, int64_t keep, int64_t of,
                                            int64_t vector);

  // Computes an intermediate that depends on a weight alone once, at load: adds a pack program, and
  // main takes the intermediate as a weight.
  void precompute(const Block& block);
  // A factor of a sum of products is stored as another type, a constant added to it: makes block
  // "<buffer>_<type>" that converts it, and where the constant is not 0 block "<block>_offset" with
  // what the sums then start from. Returns the blocks made.
  std::vector<Block> convert_operand(const Block& block, const std::string& buffer, ElemType type,
                                     int64_t offset);
  // Elements of a stored operand as another type that holds them, a constant added: makes block
  // "<buffer>_<type>" in front of all (schedule/primitives/widen_operand.h).
  Block widen_operand(const std::string& buffer, ElemType type, int64_t offset);
  // Groups of `group` elements along the reduction of `block`, for which block `value` says what the
  // other factor is worth, become ones of `to` with zeros. Returns the blocks that fill both operands
  // (schedule/primitives/pad_groups.h).
  std::vector<Block> pad_groups(const Block& block, const Block& value, int64_t group, int64_t to);
  // Stores the elements of an intermediate without the factor that its readers then apply
  // (schedule/primitives/unscale.h).
  void unscale(const Block& block, ElemType type);
  // Stores an intermediate's numbers as two of a narrower type each, which the sums of products that
  // read it both take (schedule/primitives/store_halves.h).
  void store_halves(const Block& block, ElemType type);
  // Stores an intermediate in the narrower type that its values are rounded to
  // (schedule/primitives/store_rounded.h).
  void store_rounded(const Block& block);
  // Readers of what `block` stores read what `like` has stored before, the same values
  // (schedule/primitives/deduplicate.h).
  void deduplicate(const Block& block, const Block& like);
  // Applies what the loops from `loop` on do not change to their sums, formed in `type`. Returns the
  // blocks made: the partial sums, their init, and sums of the other factors where these are needed
  // (schedule/primitives/factor_scale.h).
  std::vector<Block> factor_scale(const Block& block, const Loop& loop, ElemType type);

  // Replays one recorded step; returns the names that it made, which must be the recorded ones when
  // the step has any. Every method goes through here.
  std::vector<std::string> apply(const Step& step);

 private:
  Module module_;
  Trace trace_;
};

}  // namespace tilewright
