// Matrix products among contractions, and what every way to tile them on a GPU does first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/rules/rules.h"

namespace tilewright {

// A product of the same A beside another one.
struct GpuSibling {
  Block block;
  std::string b;  // its other operand
};

// The iterators of C[b, i, j] += A[b, i, k] * B[b, k, j], whatever the order of the indices.
struct GpuRoles {
  std::vector<int> batch;
  int i = -1, j = -1, k = -1;
  std::string a, b;
  // Of operands that are copies which gather their elements: how many of them are neighbours in
  // memory. 0 for operands as they lie.
  int64_t a_vector = 0, b_vector = 0;
  // Such copies are those of parts of a matrix product's terms (gpu_split_terms()): boxes of matrices.
  bool is_part = false;
  // Of operands that are gathered, whether a tile is a box of the operand in memory (a matrix that is looked up by a group's
  // number), as it is of operands as they lie; and of the result, whether one is.
  bool a_is_box = true, b_is_box = true, result_is_box = true;
  // Whether at least the places of the result's rows are numbered in the order in which they lie (the pixels
  // of images, channels last), so that it is a matrix in memory.
  bool result_is_matrix = true;
  // How B, a weight, is to lie in memory: as it does, tile by tile, or in these by the matrices of 8
  // rows by 16 bytes that ldmatrix brings to registers, each of which meets every bank once.
  enum class WeightLayout : uint8_t { AsItIs, Tiles, Matrices } weight = WeightLayout::AsItIs;

  // Products of the same A, alike in all but their B, that run in the loops of this one, which stands
  // first; one block reads the results of all of them (gpu_siblings.h).
  std::vector<GpuSibling> siblings;

  bool is_gathered() const { return a_vector > 0; }
  int64_t products() const { return 1 + static_cast<int64_t>(siblings.size()); }
};

// Nothing when the block is no product of two matrices, or of stacks of them. The extent of i may be
// dynamic.
std::optional<GpuRoles> gpu_roles_of(const Schedule& s, const Block& block);

// The loop of an iterator of a block that is as it was lowered. Its binding tells, except where an
// iterator of one value is bound to that.
Loop gpu_loop_of(const Schedule& s, const Block& block, int iter);
// Pads the block to whole tiles and lets it read its operands from shared memory: roles.a and
// roles.b become those buffers, each written by a block that copies the operand and zeros around
// it; `b_scope` puts the second one elsewhere. Siblings' B likewise; A is one for all.
void gpu_stage_operands(RuleContext& c, const Block& block, GpuRoles& roles, int64_t m, int64_t n,
                        int64_t k, Scope b_scope = Scope::Shared);
// Neighbours of an operand's rows that one access may take, in full tiles or not: of A and of B.
std::pair<int64_t, int64_t> gpu_row_vectors(RuleContext& c, const Block& block,
                                            const GpuRoles& roles);
// The one block that reads the block's results, an element each or a few, in the order in which they lie:
// what may take them in a tile at a time. Nothing where there is none.
std::optional<Block> gpu_taker_of(const Schedule& s, const Block& block);
// Puts the block's sums into registers; the block that takes them from there.
Block gpu_place_result(RuleContext& c, const Block& block);
// The same where the block may have siblings: the block that takes the sums of all.
Block gpu_place_results(RuleContext& c, const Block& block, const GpuRoles& roles);
// The copy of an operand's tile to shared memory, two loops deep, by all threads in turn.
void gpu_share_copy(RuleContext& c, const std::string& buffer, int64_t threads, int64_t vector);

// Whether the target has matrix instructions of warps for the block's types.
bool gpu_has_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);
// By matrix instructions of warps. False when the target has none for the block's types, or none is
// to be used.
bool gpu_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles);

}  // namespace tilewright
