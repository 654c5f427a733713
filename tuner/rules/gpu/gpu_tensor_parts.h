// Shared parts of the tilings with matrix instructions, and of their epilogues. Accumulators have
// the layout of `mma.sync`: 16 rows and several groups of 8 columns per warp.
#pragma once

#include <string>
#include <vector>

#include "kernel/instructions/fragment.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// Maps [..., row, position] to [..., position / span, row, position % span].
IndexMap gpu_in_spans(int rank, int64_t span);

// The type of the block's results: of its own buffer, or of the epilogue block that reads it.
ElemType gpu_result_elem(const RuleContext& c, const Block& block);

// The options of the knob "stores": how a result tile gets to memory. `rows` and `columns` are the
// extents of the result.
std::vector<std::string> gpu_ways_to_store(const RuleContext& c, const Block& block,
                                           const TensorTileSizes& tile, const Expr& rows,
                                           const Expr& columns, int instruction_rows);

// Makes the iterator `k` run along the rows of an operand that is not 16 bits wide. Such elements
// are transposed on the way to shared memory, as they cannot be transposed on the way to registers.
void gpu_lay_along_terms(RuleContext& c, const Block& block, const std::string& operand, int k);

// Lays out an operand in shared memory in swizzle atoms of 128 bytes, each with the tile's whole k.
// Does nothing if the operand is contiguous along the iterator `k`, or fits one atom. `size` is the
// tile's extent along its rows.
void gpu_lay_in_spans(RuleContext& c, const Block& block, const std::string& operand, int64_t size,
                      int k);

// Lays out a tile that is contiguous along k in consecutive swizzle atoms of `span` elements, each
// with all rows.
void gpu_lay_terms_in_spans(RuleContext& c, const std::string& operand, int64_t span);

// Lays out a buffer by the fragments of a matrix: [.., fragment along rows, fragment along columns,
// lane, element]. `row` and `column` are its last two dimensions.
void gpu_lay_out(RuleContext& c, const std::string& buffer, const Fragment& f, int row, int column);

// Lays out accumulators as an instruction of `rows` rows leaves them, in fragments of 8 columns.
// With swapped operands (swap AB), the result's columns are the rows of the instruction.
void gpu_lay_out_sums(RuleContext& c, const Block& block, int rows, bool are_swapped = false);

// Binds loops over a tile, warps outermost, to the threads that hold it. `row` and `column` run over
// a fragment. A thread runs over the loops `own` and its elements of a fragment. The innermost
// elements are a vector, or single ones.
void gpu_bind_lanes(RuleContext& c, const Fragment& f, const Loop& warp,
                    const std::vector<Loop>& own, const Loop& row, const Loop& column,
                    bool is_vector = true);

// The first of the loops of a matrix instruction that has more than one iteration, which is marked:
// loops of one are gone when the nest is matched.
Loop gpu_first_of(const RuleContext& c, const std::vector<Loop>& loops);

// Binds a block over all accumulators, under its first `around` loops, to the threads that hold
// them. Its loops run over warps, fragments, and the rows and columns of the instruction.
void gpu_bind_sums(RuleContext& c, const Block& block, size_t around, const Instruction& row,
                   bool are_swapped = false);

// Stores the result tile from shared memory, coalesced: 16-byte vectors per thread where rows allow
// it, so that whole sectors are written.
void gpu_store_rows(RuleContext& c, const Block& copy, const TensorTileSizes& tile);

// The same for swapped operands: stores the tile that `last` reads from shared memory. A thread
// stores `vector` neighbours if rows are multiples of that.
void gpu_store_packed_rows(RuleContext& c, const Block& last, int64_t threads, int64_t vector = 4);

}  // namespace tilewright
