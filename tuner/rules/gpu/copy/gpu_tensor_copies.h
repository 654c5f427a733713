// The ways of wgmma operands to shared memory on a GPU: by threads (cp.async), or as TMA tiles
// (codegen/cuda/cuda_tensor_copy.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// The choice "by all threads".
inline constexpr const char* kByCpAsync = "cp_async";

/// The k elements of the first operand per copy. These are all `tile_k` of a tile or, for im2col of
/// few channels, those of a swizzle atom (gpu_span_of_windows()). The tile must then be laid out by
/// atoms.
int64_t gpu_span_of_copies(const RuleContext& c, const Block& block, const GpuRoles& roles,
                           int64_t tile_k);
/// Asks the knob "NAME.copies". "roles" (kByRoles) means that producer warps issue TMA loads. With
/// "tensor" (kByThreads) all threads meet at a barrier per iteration, and one of them issues. Both
/// need tensor maps of both operands. Rows must be multiples of 16 bytes, with elements as
/// instructions want them in memory; gathered operands must pass gpu_is_one_copy(). "cp_async" is
/// always there. `vectors` come from gpu_row_vectors(), and `tile_k` is the k of a tile, in which
/// the first operand lies in atoms of `a_span`. "ping_pong" (kPingPong) is offered where the caller says
/// so: two teams of the tile's threads take tiles in turns.
std::string gpu_choose_copies(RuleContext& c, const Block& block, const GpuRoles& roles,
                              std::pair<int64_t, int64_t> vectors, int64_t tile_k, int64_t a_span,
                              bool may_ping_pong = false);
/// Whether the choice uses TMA.
bool gpu_copies_boxes(const std::string& copies);
/// Whether producer warps issue the copies.
bool gpu_has_producers(const std::string& copies);

/// Threads per block, if `threads` of them compute; warp specialization adds producer warps.
int64_t gpu_threads_with_copies(const RuleContext& c, const std::string& copies, int64_t threads);

/// The least number of registers per thread, if computing threads have `sums` of them as
/// accumulators. If producer warps release registers to them, a block starts with all registers.
int64_t gpu_registers_with_copies(const RuleContext& c, const std::string& copies, int64_t threads,
                                  int64_t sums);

/// Options for the number of stages that shared memory holds beside everything else, a sound one
/// first.
std::vector<int64_t> gpu_stages_of_boxes(const RuleContext& c, int64_t stage_bytes);

/// Marks the copy that fills a buffer as a TMA load; it stands in the k loop.
void gpu_copy_boxes(RuleContext& c, const std::string& buffer);

/// How the tiles of a block get to shared memory: a choice of gpu_choose_copies(), and the number
/// of computing threads.
struct GpuTileCopies {
  std::string way = kByCpAsync;
  int64_t threads = 0;

  /// Carries out the copy that fills a buffer; threads copy `vector` neighbours each.
  void carry_out(RuleContext& c, const std::string& buffer, int64_t vector) const;
};

/// Columns of a TMA tile of the block's result, with rows of up to 128 bytes. 0 if the result's
/// rows are not multiples of that, so that no tensor map describes them. `columns` is the extent of
/// the result.
int64_t gpu_box_columns(const RuleContext& c, const Block& block, const TensorTileSizes& tile,
                        const Expr& columns);
/// Turns results with several row indices (GpuRoles::result_is_matrix) into the matrix of all rows,
/// in the array that `writer` fills and `copy` stores to memory.
void gpu_number_rows(RuleContext& c, const Block& writer, const Block& copy);
/// Lays out the result tile that the block writes to shared memory as consecutive TMA tiles.
void gpu_lay_in_boxes(RuleContext& c, const Block& writer, int64_t columns);
/// Stores the tile to memory by TMA, one box after another.
void gpu_store_boxes(RuleContext& c, const Block& copy, int64_t columns);

}  // namespace tilewright
