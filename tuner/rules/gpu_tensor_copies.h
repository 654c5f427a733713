// How operands of warpgroups' products come to shared memory on a GPU: by threads, or as boxes by tensor
// copies (codegen/cuda_tensor_copy.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/gpu_tiles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// The answer by all threads.
inline constexpr const char* kByCpAsync = "cp_async";

/// How many of a tile's `tile_k` terms of the first operand one copy brings: all of them, or of windows
/// of few channels those of a span (gpu_span_of_windows()), by which the tile is to lie then.
int64_t gpu_span_of_copies(const RuleContext& c, const Block& block, const GpuRoles& roles,
                           int64_t tile_k);
/// Asks "NAME.copies": "roles" and "tensor" (kByRoles, kByThreads) where tensor maps describe both
/// operands: rows of multiples of 16 bytes, of elements that lie in memory as instructions want them; of
/// operands that are gathered, what gpu_is_one_copy() says.
/// And "cp_async". `vectors` are those of gpu_row_vectors(), `tile_k` the terms of a tile, of which the
/// first operand lies in spans of `a_span`.
std::string gpu_choose_copies(RuleContext& c, const Block& block, const GpuRoles& roles,
                              std::pair<int64_t, int64_t> vectors, int64_t tile_k, int64_t a_span);
/// Whether the answer is one by tensor copies.
bool gpu_copies_boxes(const std::string& copies);

/// Threads of a block with so many that compute.
int64_t gpu_threads_with_copies(const RuleContext& c, const std::string& copies, int64_t threads);

/// Registers of each of a block's threads, at least, of which those that compute have so many for sums. Where
/// other warps give them theirs, a block starts with all that there are.
int64_t gpu_registers_with_copies(const RuleContext& c, const std::string& copies, int64_t threads,
                                  int64_t sums);

/// The number of stages that shared memory holds beside what else is there, a sound one first.
std::vector<int64_t> gpu_stages_of_boxes(const RuleContext& c, int64_t stage_bytes);

/// Marks the copy that fills a buffer, which stands in the loop over terms.
void gpu_copy_boxes(RuleContext& c, const std::string& buffer);

/// How the tiles of a block get to shared memory: an answer of gpu_choose_copies(), and the threads that
/// compute.
struct GpuTileCopies {
  std::string way = kByCpAsync;
  int64_t threads = 0;

  /// Has the copy that fills a buffer carried out so; threads take `vector` neighbours each.
  void carry_out(RuleContext& c, const std::string& buffer, int64_t vector) const;
};

/// Columns of a box of the block's result, of rows of up to 128 bytes; 0 where its rows are not made of
/// whole ones, so that no map describes them. `columns` is the extent of the result.
int64_t gpu_box_columns(const RuleContext& c, const Block& block, const TensorTileSizes& tile,
                        const Expr& columns);
/// Results whose rows have several indices (GpuRoles::result_is_matrix) are the matrix of all rows in the
/// array that `writer` fills and `copy` brings to memory.
void gpu_number_rows(RuleContext& c, const Block& writer, const Block& copy);
/// The tile of results that the block writes to shared memory lies there box behind box.
void gpu_lay_in_boxes(RuleContext& c, const Block& writer, int64_t columns);
/// The copy of the tile to memory, one box after the other.
void gpu_store_boxes(RuleContext& c, const Block& copy, int64_t columns);

}  // namespace tilewright
