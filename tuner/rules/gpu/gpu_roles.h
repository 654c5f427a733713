// Recognizes matrix products among contractions; the first steps of every GPU tiling.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/rules/rules.h"

namespace tilewright {

// Another product of the same A (dual GEMM).
struct GpuSibling {
  Block block;
  std::string b;  // operand B
};

// The iterators of C[b, i, j] += A[b, i, k] * B[b, k, j], for any order of the indices.
struct GpuRoles {
  std::vector<int> batch;
  int i = -1, j = -1, k = -1;
  std::string a, b;
  // Contiguous elements of operands that are gathered by copies; 0 for operands used as they lie.
  int64_t a_vector = 0, b_vector = 0;
  // Such copies gather a part of a matrix product's k (gpu_split_terms()): their tiles are boxes of
  // matrices.
  bool is_part = false;
  // Whether a tile of the operand is one TMA tile (a box) in memory. True for operands as they lie,
  // and for a gathered matrix that a group's number selects. The same for the result.
  bool a_is_box = true, b_is_box = true, result_is_box = true;
  // Whether the result's rows are at least in memory order (pixels of images, channels last), so
  // that it is a matrix in memory.
  bool result_is_matrix = true;
  // The layout of B, a weight, in memory: unchanged, tile by tile, or tiles of ldmatrix matrices.
  // These have 8 rows of 16 bytes, each matrix covering every bank once.
  enum class WeightLayout : uint8_t { AsItIs, Tiles, Matrices } weight = WeightLayout::AsItIs;

  // Products of the same A that differ in B only and run in the loops of this one, the first. One
  // block reads the results of all of them (gpu_siblings.h).
  std::vector<GpuSibling> siblings;

  bool is_gathered() const { return a_vector > 0; }
  int64_t products() const { return 1 + static_cast<int64_t>(siblings.size()); }
};

// Nothing if the block is not a product of two matrices or stacks of matrices. Only i may be
// dynamic.
std::optional<GpuRoles> gpu_roles_of(const Schedule& s, const Block& block);

// The loop of an iterator of a block in its lowered form: the loop it is bound to. An iterator of
// extent 1 may be bound to a constant; then its loop is found by position.
Loop gpu_loop_of(const Schedule& s, const Block& block, int iter);
// Pads the block to whole tiles and stages its operands in shared memory. roles.a and roles.b
// become the staged buffers, each written by a block that copies the operand with zeros around it.
// `b_scope` stages B elsewhere. Siblings' B are staged likewise; all share one A.
void gpu_stage_operands(RuleContext& c, const Block& block, GpuRoles& roles, int64_t m, int64_t n,
                        int64_t k, Scope b_scope = Scope::Shared);
// Row neighbours per access for A and for B, in full and in partial tiles.
std::pair<int64_t, int64_t> gpu_row_vectors(RuleContext& c, const Block& block,
                                            const GpuRoles& roles);
// The epilogue block: the only reader of the block's results, which reads one element or a few in
// memory order. It can be fused a tile at a time. Nothing if there is none.
std::optional<Block> gpu_taker_of(const Schedule& s, const Block& block);
// Puts the block's accumulators into registers. Returns the epilogue block, which reads them there.
Block gpu_place_result(RuleContext& c, const Block& block);
// The same for a block that may have siblings: the epilogue reads all accumulators.
Block gpu_place_results(RuleContext& c, const Block& block, const GpuRoles& roles);
// Copies an operand's tile to shared memory by all threads in turn, under two loops.
void gpu_share_copy(RuleContext& c, const std::string& buffer, int64_t threads, int64_t vector);

// Whether the target has warp-level matrix instructions for the block's types.
bool gpu_has_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);
// Uses warp-level matrix instructions. Returns false if the target has none for the block's types,
// or the trial chooses none.
bool gpu_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
