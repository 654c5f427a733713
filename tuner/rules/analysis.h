// Facts about blocks that the sketch rules use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "kernel/target.h"
#include "schedule/schedule.h"

namespace tilewright {

enum class BlockRole {
  Injective,     // no reduction
  Contraction,   // a reduction with operand reuse or contiguous spatial iterators
  RowReduction,  // a reduction along contiguous memory, nothing contiguous beside it
};

struct BlockFacts {
  BlockRole role;
  std::vector<int> spatial, reduce;  // indices of the block's iterators
  std::vector<int64_t> extents;      // of all iterators; a dynamic one has its maximum
  std::vector<bool> dynamic;         // the extent depends on a dynamic dimension
};

BlockFacts analyze(const Schedule& s, const Block& block);

// An extent with every dynamic dimension at its maximum.
int64_t largest_extent(const Schedule& s, const Expr& extent);

// Whether the block copies elements and puts zeros around them.
bool pads_with_zeros(const BlockNode& block);
// Whether the value of `producer` has a condition that differs between neighbours along this iterator of its
// reader.
bool guards_along(const BlockNode& reader, const BlockNode& producer, int iter);

// Whether the innermost loop runs along the last dimension of the block's result.
bool stores_neighbours(const Schedule& s, const Block& block);

// Whether the block has so few rows per column of iterator `column` that reading a column costs
// more than computing on it. Rows are the iterations of the other spatial iterators.
bool has_few_rows(const Schedule& s, const Block& block, int column);
// Names of the buffers that the block's value reads, in order of appearance, without its
// accumulator.
std::vector<std::string> inputs_of(const BlockNode& block);
// The indices of the block's first load of `buffer`.
std::vector<Expr> indices_of(const BlockNode& block, const std::string& buffer);
const StoreNode& store_of(const BlockNode& block);
// The product of the extents of these iterators.
int64_t product(const BlockFacts& facts, const std::vector<int>& iters);
// The loop to which the iterator is bound as it is; nothing for other bindings.
std::optional<Loop> loop_of(const IterVar& iter);
// The element type of `buffer`, which the block's value must read.
ElemType read_elem(const BlockNode& block, const std::string& buffer);
// The iterator that equals this index, or -1.
int plain_iterator(const BlockNode& block, const Expr& index);
// The dimension, not the last one, whose index differs between `lanes` neighbours along the iterator: they
// are not neighbours in memory.
std::optional<size_t> dimension_across(const BlockNode& block, const std::vector<Expr>& indices,
                                       int iter, int64_t lanes);
// Lanes of the target's vectors of the block's results; 1 where it has none.
int64_t lanes_of_results(const Schedule& s, const Block& block, const Target& target);
// Whether one of the indices is calculated from the iterator.
bool uses_iterator(const std::vector<Expr>& indices, const IterVar& iter);
// Whether a window moves along memory with `iter`, by one element or two: a vector of windows is read as one or
// two vectors of elements.
bool moves_a_window(const std::vector<Expr>& indices, const IterVar& iter);
// Whether the block reads `buffer` at its own iterators, one to one, in any order.
bool covers_iterators(const BlockNode& block, const std::string& buffer);
// Per dimension of an injective block's result: s if all elements but every s-th are zero, else 1.
std::vector<int64_t> zero_periods(const BlockNode& block);
// Whether `reader` is injective and reads nothing computed after `block`: then it can be fused into
// `block`, its last producer.
bool can_take_in(const Schedule& s, const Block& block, const Block& reader);
// The parameter with this name, or null.
const Param* find_param(const Schedule& s, const std::string& buffer);
bool is_output(const Schedule& s, const std::string& buffer);
bool is_weight(const Schedule& s, const std::string& buffer);
// The parameter of the workload's stored weight (a few-bit one, for example). The workload must
// have one.
const Param& stored_weight(const Workload& workload);
// The producer of `block` that computes the dequantized values of the workload's stored weight, if
// any.
std::optional<Block> weight_value_of(const Schedule& s, const Block& block,
                                     const Workload& workload);
// The map of `rank` indices that moves the index at `from` to `to`.
IndexMap moved_index(size_t rank, size_t from, size_t to);
// Whether the value calls a function that costs more than a few instructions.
bool is_expensive(const BlockNode& block);

}  // namespace tilewright
