// What the rules of the generated sketches want to know of a block.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "schedule/schedule.h"

namespace tilewright {

enum class BlockRole {
  Injective,     // no reduction
  Contraction,   // a reduction whose operands are reused over its spatial iterators, or that has
                 // contiguous spatial iterators: gains from tiles in registers
  RowReduction,  // a reduction along contiguous memory with nothing contiguous beside it
};

struct BlockFacts {
  BlockRole role;
  std::vector<int> spatial, reduce;  // positions among the block's iterators
  std::vector<int64_t> extents;      // of all iterators; of a dynamic one the largest
  std::vector<bool> dynamic;         // whose extent depends on a dynamic dimension
};

BlockFacts analyze(const Schedule& s, const Block& block);

// An extent where every dynamic dimension has its largest value.
int64_t largest_extent(const Schedule& s, const Expr& extent);

// Whether there are so few rows (iterations of the block's other spatial iterators) for the columns of
// iterator `column` that the bytes of what is read for each column count more than what is computed.
bool has_few_rows(const Schedule& s, const Block& block, int column);
// Names of the buffers that the block's value reads, in order of appearance, without the one that
// it accumulates in.
std::vector<std::string> inputs_of(const BlockNode& block);
// The indices of the first load of `buffer` in the block.
std::vector<Expr> indices_of(const BlockNode& block, const std::string& buffer);
const StoreNode& store_of(const BlockNode& block);
// The type of the elements of `buffer`, which the block's value reads.
ElemType read_elem(const BlockNode& block, const std::string& buffer);
// The iterator that an index is exactly, or -1.
int plain_iterator(const BlockNode& block, const Expr& index);
// Whether the block reads `buffer` at its own iterators, one to one, in any order.
bool covers_iterators(const BlockNode& block, const std::string& buffer);
// For each dimension of what an injective block stores: s where the value is zero in all elements
// but every s-th, else 1.
std::vector<int64_t> zero_periods(const BlockNode& block);
// Whether `reader` is injective and reads nothing that is computed behind `block`, which it reads: the
// last of what it joins may take it in.
bool can_take_in(const Schedule& s, const Block& block, const Block& reader);
// The parameter of this name, or null.
const Param* find_param(const Schedule& s, const std::string& buffer);
bool is_output(const Schedule& s, const std::string& buffer);
bool is_weight(const Schedule& s, const std::string& buffer);
// The parameter that holds the workload's stored weight (of a few bits, say), which it must have.
const Param& stored_weight(const Workload& workload);
// The producer of `block` that says what the workload's stored weight is worth, where there is one.
std::optional<Block> weight_value_of(const Schedule& s, const Block& block,
                                     const Workload& workload);
// The map of `rank` indices that takes one of them to another place.
IndexMap moved_index(size_t rank, size_t from, size_t to);
// True when the value calls a function that costs more than a few instructions.
bool is_expensive(const BlockNode& block);

}  // namespace tilewright
