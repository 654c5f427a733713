// A schedule: a module that is being rewritten, and the trace of the rewrites.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/arith/index_map.h"
#include "ir/stmt.h"
#include "schedule/error.h"
#include "schedule/trace.h"

namespace tilewright {

// Loops and blocks have names that are unique in the program (a loop's name is its variable's).
// Handles are only names. They stay valid as long as the loop or block exists, and can be printed,
// stored and compared.
struct Loop {
  std::string name;
  bool operator==(const Loop&) const = default;
};
struct Block {
  std::string name;
  bool operator==(const Block&) const = default;
};

// The primitives. Each one is a record (in schedule/primitives/: its arguments, apply, text and
// JSON form). A method here makes the record, applies it to the main program and appends it to the
// trace. A method either succeeds, or throws ScheduleError and changes nothing.
class Schedule {
 public:
  explicit Schedule(Module module);
  explicit Schedule(Program main) : Schedule(Module{std::move(main), {}}) {}

  const Module& module() const { return module_; }
  const Program& program() const { return module_.main; }
  const Trace& trace() const { return trace_; }

  // Queries -------------------------------------------------------------------------------------
  Block block(const std::string& name) const;         // throws NotFound with the existing names
  std::vector<Block> blocks() const;                  // leaf blocks, in program order
  std::vector<Loop> loops(const Block& block) const;  // around the block, outermost first
  const BlockNode& node(const Block& block) const;
  const ForNode& node(const Loop& loop) const;
  // The buffer that a leaf block stores to.
  const Buffer& output(const Block& block) const;
  // Blocks that write what `block` reads; blocks that read what it writes.
  std::vector<Block> producers(const Block& block) const;
  std::vector<Block> consumers(const Block& block) const;

  // Loops (schedule/primitives/loops/loops.h) --------------------------------------------------------
  //
  // Splits a loop by the factors, outermost first:
  //
  //   for i in 0..n  ->  for i_0 in 0..f0 { for i_1 in 0..f1 { i = i_0*f1 + i_1 }}
  //
  // One factor may be -1 (inferred, rounded up). Where the product exceeds the extent, the blocks
  // inside get a predicate; a product below the extent is refused. New loops: "<name>_0", ….
  std::vector<Loop> split(const Loop& loop, const std::vector<int64_t>& factors);
  Loop fuse(const std::vector<Loop>& loops);     // perfectly nested, outermost first
  void reorder(const std::vector<Loop>& loops);  // loops of one chain; blocks stay inside
  // Splits both loops and reorders: (i, j) -> (i_0, j_0, i_1, j_1).
  std::array<Loop, 4> tile(const Loop& i, const Loop& j, int64_t ti, int64_t tj);
  void parallel(const Loop& loop);
  void vectorize(const Loop& loop);
  // Vectors along a reduction, whose lanes are combined at the end
  // (schedule/primitives/loops/loop_kinds.h). `loop`: the reduction, or the loop around it.
  void vectorize_reduction(const Loop& loop);
  void unroll(const Loop& loop);
  void bind(const Loop& loop, ForKind thread_axis);
  void annotate(const Loop& loop, const std::string& key, const Annotation& value);
  void annotate(const Block& block, const std::string& key, const Annotation& value);
  Loop add_unit_loop(const Block& block);
  // Merges adjacent loops of equal extent into one that runs their bodies in order. No iteration
  // may need a later one.
  Loop merge(const std::vector<Loop>& loops);

  // Reductions (schedule/primitives/loops/reduction.h) -----------------------------------------------
  // Splits the init off into block "<name>_init" that stands right before `loop`.
  Block decompose_reduction(const Block& block, const Loop& loop);
  // Turns reduce loop `loop` into a spatial axis of a partial result "<name>_rf", and then reduces
  // that result. The new axis becomes dimension `factor_axis` of its buffer. Returns the partial
  // block.
  Block rfactor(const Block& block, const Loop& loop, int factor_axis);
  // Pads each iterator of an einsum-like block to a multiple: copies operands into zero-padded
  // buffers and copies the result back. `multiples` has one entry per iterator of the block.
  void pad_einsum(const Block& block, const std::vector<int64_t>& multiples);

  // Like pad_einsum(), for a block of an intermediate whose padding holds neutral values
  // (schedule/primitives/layout/pad_values.h).
  void pad_values(const Block& block, const std::vector<int64_t>& multiples);

  // Fuses a maximum, the weights exp(x - maximum) and their sums into one loop over blocks of
  // `factor` values of their axis. Returns that loop and the new blocks
  // (schedule/primitives/softmax/online_softmax.h).
  std::pair<Loop, std::vector<Block>> online_softmax(const Block& maximum, int64_t factor);
  // Splits the same reductions into `parts` parts of their axis (split-KV), each with its own
  // maximum, and combines them afterwards. Returns the new blocks
  // (schedule/primitives/softmax/split_softmax.h).
  std::vector<Block> split_softmax(const Block& maximum, int64_t parts);

  // Moving and inlining (schedule/primitives/blocks/compute_at.h, inline.h) ----------------------------
  //
  // Moves a producer (consumer) under `loop`, over just the region that is needed there.
  void compute_at(const Block& block, const Loop& loop);
  void reverse_compute_at(const Block& block, const Loop& loop);
  void compute_inline(const Block& block);          // an injective producer into its consumers
  void reverse_compute_inline(const Block& block);  // an elementwise consumer into its producer

  // Intrinsics (schedule/primitives/loops/tensorize.h) ------------------------------------------------
  // Marks `loop` and the loops in it as the intrinsic of that name, which computes the tensor
  // expression `computes` (schedule/tensor_match.h). Refused with the iterator that does not fit.
  void tensorize(const Loop& loop, const std::string& intrinsic, const std::string& computes);

  // Memory (schedule/primitives/blocks/cache.h, layout.h) ---------------------------------------------
  // A copy block "<buffer>_<scope>" of buffer `buffer` that `block` reads from (writes to).
  Block cache_read(const Block& block, const std::string& buffer, Scope scope);
  Block cache_write(const Block& block, const std::string& buffer, Scope scope);
  // Like cache_read(), for a buffer that `block` reads at an index that one of its iterators looks
  // up in memory.
  Block cache_lookup(const Block& block, const std::string& buffer, Scope scope);
  void set_scope(const std::string& buffer, Scope scope);
  // Makes block "<buffer>_reindex". It copies an operand of `block` to a buffer whose dimensions
  // are the block's own iterators, or its result from such a buffer
  // (schedule/primitives/layout/reindex.h).
  Block reindex(const Block& block, const std::string& buffer);
  // Changes the layout of an intermediate buffer wherever it is used.
  void transform_layout(const std::string& buffer, const IndexMap& map);
  // Rewrites a block's iterators by a bijective map of them; its loops become the image's.
  void transform_block_layout(const Block& block, const IndexMap& map);
  // Lays the constant operand `buffer` out by `map` once, at load: adds a pack program and makes
  // main read "<buffer>_packed". Elements of the image with no logical element are zero.
  void prepack(const std::string& buffer, const IndexMap& map);
  // Packs the N:M sparse weight `buffer` of a contraction into its kept elements and their rows
  // (schedule/primitives/weight/compress.h). The caller guarantees the pattern.
  void compress_nm(const Block& block, const std::string& buffer, int64_t keep, int64_t of,
                   int64_t vector);
  // Like compress_nm(), for an operand that a block makes of the weight
  // (schedule/primitives/weight/compress_operand.h). Returns the names of the kept elements and their
  // rows.
  std::vector<std::string> compress_operand(const Block& block, const std::string& operand,
                                            const std::string& weight, int64_t keep, int64_t of,
                                            int64_t vector);

  // Computes an intermediate that depends only on a weight once, at load: adds a pack program, and
  // main takes the intermediate as a weight.
  void precompute(const Block& block);
  // Stores a factor of a sum of products as another type with a constant added: makes block
  // "<buffer>_<type>", which converts it. For a constant other than 0 it also makes block
  // "<block>_offset" with the values that the sums start from. Returns the new blocks.
  std::vector<Block> convert_operand(const Block& block, const std::string& buffer, ElemType type,
                                     int64_t offset);
  // Converts elements of a stored operand to another type that holds them, with a constant added:
  // makes block "<buffer>_<type>" before all others (schedule/primitives/weight/widen_operand.h).
  Block widen_operand(const std::string& buffer, ElemType type, int64_t offset);
  // Pads groups of `group` elements along the reduction of `block` to `to` elements with zeros.
  // Block `value` computes the dequantized values of the other factor. Returns the blocks that fill
  // both operands (schedule/primitives/weight/pad_groups.h).
  std::vector<Block> pad_groups(const Block& block, const Block& value, int64_t group, int64_t to);
  // Stores the elements of an intermediate without their shared factor, which the readers apply
  // instead (schedule/primitives/weight/unscale.h).
  void unscale(const Block& block, ElemType type);
  // Stores each number of an intermediate as two of a narrower type. The sums of products that read
  // it take both (schedule/primitives/weight/store_halves.h).
  void store_halves(const Block& block, ElemType type);
  // Stores an intermediate in the narrower type that its values are rounded to
  // (schedule/primitives/softmax/store_rounded.h).
  void store_rounded(const Block& block);
  // Replaces index 0 along dimension `dim` of a buffer by the block's iterator, which has one
  // iteration (schedule/primitives/layout/unit_index.h).
  void unit_index(const Block& block, const std::string& buffer, size_t dim,
                  const std::string& iterator);
  // Makes readers of what `block` stores read the same values that `like` stored before
  // (schedule/primitives/blocks/deduplicate.h).
  void deduplicate(const Block& block, const Block& like);
  // Applies factors that the loops from `loop` on do not change to their sums, formed in `type`.
  // Returns the new blocks: the partial sums, their init, and sums of the other factors where these
  // are needed (schedule/primitives/weight/factor_scale.h).
  std::vector<Block> factor_scale(const Block& block, const Loop& loop, ElemType type);

  // Replays one recorded step and returns the names that it made. They must equal the recorded
  // names when the step has any. Every method goes through here.
  std::vector<std::string> apply(const Step& step);

 private:
  Module module_;
  Trace trace_;
};

}  // namespace tilewright
