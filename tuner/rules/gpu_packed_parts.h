// What the ways to multiply a packed weight by matrix instructions have in common. The weight is their
// first operand: sums lie as instructions leave them (acc_place()) with the result's columns as rows.
#pragma once

#include <vector>

#include "tuner/rules/gpu_packable.h"
#include "tuner/rules/rules.h"

namespace tilewright {

struct GpuTileCopies;

// The block's sums by 16 columns of the result, 8 of its rows, lane and register.
void gpu_lay_out_packed_sums(RuleContext& c, const Block& block);

// Loops over a tile of sums, warps outermost, as those of the threads that hold them: `j` runs over the
// 16 columns of the result and `i` over the 8 rows of a fragment.
void gpu_bind_packed_lanes(RuleContext& c, const Loop& warp, const std::vector<Loop>& fragments,
                           const Loop& j, const Loop& i);

// The same of a block over all sums of instructions that give a warp 16 columns of the result and all
// rows of its tile, under the first `around` of its loops.
void gpu_bind_packed_sums(RuleContext& c, const Block& block, size_t around);
// Likewise of a block over a tile of the result, whose last two loops are `m` rows and `n` columns.
void gpu_bind_packed_result(RuleContext& c, const Block& block, int64_t m, int64_t n);
// The sums of each iteration of `loop` by themselves, in registers, and then added up.
void gpu_sum_apart(RuleContext& c, const Block& sums, const Loop& loop, ElemType elem);

// The tile of the result that `last` brings from shared memory, by rows: `vector` neighbours a thread, where
// rows have whole ones.
void gpu_store_packed_rows(RuleContext& c, const Block& last, int64_t threads, int64_t vector = 4);

// Whether rows of scales and zero points lie so that tiles of `tile_n` of them are copied 16 bytes at a
// time, ahead of the sums that wait for them. `columns` are those of the result.
bool gpu_may_stage_scales(const RuleContext& c, const Packable& weight, int64_t columns,
                          int64_t tile_n);

// Who reads what a group's elements share: zero points, and scales.
struct ScaleReaders {
  Block elements, sums;
};
// Has that copied to shared memory under the loop over tiles along k, with their codes.
void gpu_stage_scales(RuleContext& c, const ScaleReaders& readers, const WeightFormat& format,
                      const Loop& k_outer, const GpuTileCopies& copies);

}  // namespace tilewright
