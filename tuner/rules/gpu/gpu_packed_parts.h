// Shared parts of the ways to multiply a packed weight with matrix instructions. The operands are
// swapped (swap AB): the weight is operand A. Accumulators lie as instructions leave them
// with the result's columns as rows (gpu_lay_out_sums()).
#pragma once

#include <vector>

#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/rules.h"

namespace tilewright {

struct GpuTileCopies;

// Unpacks a tile's codes into elements in the threads that multiply them, under the first `around`
// loops of their block. `warps` share the weight's columns.
void gpu_unpack(RuleContext& c, const Block& elements, const Block& codes, const Packable& weight,
                const PackedLayout& layout, size_t around, int64_t warps);

// Stores the result tile that `last` reads from shared memory, coalesced along rows. A thread
// stores `vector` neighbours if rows are multiples of that.
void gpu_store_packed_rows(RuleContext& c, const Block& last, int64_t threads, int64_t vector = 4);

// Whether rows of scales and zero points can be staged: tiles of `tile_n` columns must be copied as
// 16-byte vectors, ahead of the accumulators. `columns` are those of the result.
bool gpu_may_stage_scales(const RuleContext& c, const Packable& weight, int64_t columns,
                          int64_t tile_n);

// The readers of a group's values: of zero points, and of scales.
struct ScaleReaders {
  Block elements, sums;
};
// Stages these values in shared memory under the loop over k tiles, with the codes.
void gpu_stage_scales(RuleContext& c, const ScaleReaders& readers, const WeightFormat& format,
                      const Loop& k_outer, const GpuTileCopies& copies);

}  // namespace tilewright
