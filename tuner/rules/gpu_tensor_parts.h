// What the ways to compute a product by matrix instructions have in common: sums that lie as `mma.sync`
// leaves them, 16 rows and as many columns of 8 a warp, and how they get to memory.
#pragma once

#include <string>
#include <vector>

#include "tuner/rules/gpu_tiles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The type of what the block's sums become: of their own buffer, or of the one block that reads them.
ElemType gpu_result_elem(const RuleContext& c, const Block& block);

// The ways in which results of a tile get to memory, as the question "stores" offers them. `rows` and
// `columns` are the extents of the result.
std::vector<std::string> gpu_ways_to_store(const RuleContext& c, const Block& block,
                                           const TensorTileSizes& tile, const Expr& rows,
                                           const Expr& columns, int instruction_rows);

// Elements that are not transposed on their way to registers are on their way to shared memory: of an
// operand whose elements have not 16 bits, the iterator `k` runs along its rows then.
void gpu_lay_along_terms(RuleContext& c, const Block& block, const std::string& operand, int k);

// An operand in shared memory that runs across the terms, the iterator `k`, in spans of the widest swizzle
// (128 bytes), each with all terms of the tile; `size` is the tile's extent along its rows.
void gpu_lay_in_spans(RuleContext& c, const Block& block, const std::string& operand, int64_t size,
                      int k);

// A tile that runs along its terms in spans of `span` of them, one behind another, each with all rows.
void gpu_lay_terms_in_spans(RuleContext& c, const std::string& operand, int64_t span);

// Sums where an instruction of `rows` rows leaves them: by fragment, lane and register (acc_place()).
void gpu_lay_out_sums(RuleContext& c, const Block& block, int rows);

// Loops over a tile of results, warps outermost, as those of the threads that hold their sums: `i` and
// `j` run over the `rows` x 8 results of a fragment.
void gpu_bind_lanes(RuleContext& c, const Loop& warp, const std::vector<Loop>& fragments,
                    const Loop& i, const Loop& j, int rows);

// The tile of results from shared memory, 16 bytes a thread where rows allow it: whole sectors.
void gpu_store_rows(RuleContext& c, const Block& copy, const TensorTileSizes& tile);

}  // namespace tilewright
