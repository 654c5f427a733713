// Products on matrix instructions of a GPU. A plan answers all of a product's knobs; the product is
// then built by it. Warps (mma) and warpgroups (wgmma), operands from shared memory and unpacked
// weights, and swapped operands differ in their plans alone.
#pragma once

#include <string>
#include <vector>

#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/grid/gpu_cluster.h"
#include "tuner/rules/gpu/grid/gpu_grid.h"
#include "tuner/rules/gpu/grid/gpu_tile_order.h"

namespace tilewright {

struct GpuProduct {
  Block block;
  GpuRoles roles;
  // Weights of the product and of its siblings that instructions take from registers, as operand A.
  // Empty if both operands come from shared memory.
  std::vector<Packable> weights = {};

  bool is_packed() const { return !weights.empty(); }
};

// The way of a result tile to memory.
struct GpuEpilogue {
  // Staged in shared memory: nothing, accumulators, or results in their own type.
  enum class Staged : uint8_t { Nothing, Sums, Results } staged = Staged::Nothing;
  bool by_matrices = false;  // stmatrix
  int64_t box_columns = 0;   // of a TMA tile of the result; 0: threads store
  // Slices of the tile's columns, a TMA tile each, which take turns in two arrays of shared memory.
  // 1: the whole tile is staged.
  int64_t subtiles = 1;
  int64_t vector = 4;  // neighbours that a thread stores of swapped operands' results

  bool is_staged() const { return staged != Staged::Nothing; }
};

struct GpuPipeline {
  int64_t stages = 1;
  int64_t pending = 0;  // wgmma groups in flight after an iteration
  std::string copies = kByCpAsync;
};

struct GpuProductPlan {
  const Instruction* row = nullptr;
  bool is_swapped = false;  // swap AB: the instruction's rows are the result's columns
  TensorTileSizes tile{};
  int64_t chunk = 0;  // k of a swizzle atom, or what is unpacked and multiplied as one group
  bool is_swizzled = false;
  bool is_promoted = false;     // f32 promotion of 8-bit float accumulators, per tile
  bool stages_scales = false;   // scales and zero points of groups, in shared memory
  std::string transposed = {};  // how activations are transposed for a gather; empty: not at all
  GpuPipeline pipeline = {};
  GpuEpilogue epilogue = {};
  GpuCluster cluster = {};
  GpuTileOrder order = {};
  GpuGrid grid = {};

  // A tile along the rows or the columns of the instruction, and a warp's (warpgroup's) part of it.
  struct Side {
    int64_t size, warp;
  };
  Side rows() const;
  Side columns() const;
  // Rows of an instruction that a warp has.
  int64_t warp_rows() const { return row->m / row->warps(); }
};

// The plans' knobs begin with the name of the product's block. Each function asks for one family.
// Warps (mma), both operands from shared memory.
GpuProductPlan gpu_ask_mma(RuleContext& c, const GpuProduct& p, const Instruction& row);
// Warpgroups (wgmma), both operands from shared memory. Their tiles lie there in swizzled rows of
// 128 bytes, as a matrix descriptor says.
GpuProductPlan gpu_ask_wgmma(RuleContext& c, const GpuProduct& p);
// The same for few rows, with swapped operands: C^T = B^T * A^T.
GpuProductPlan gpu_ask_swapped_wgmma(RuleContext& c, const GpuProduct& p);
// Warps that unpack a weight into operand A, with swapped operands.
GpuProductPlan gpu_ask_packed_mma(RuleContext& c, const GpuProduct& p);
// The same with warpgroups. The rows of activations are the instruction's columns, 8 to 256.
GpuProductPlan gpu_ask_packed_wgmma(RuleContext& c, const GpuProduct& p);

void gpu_build_product(RuleContext& c, GpuProduct p, const GpuProductPlan& plan);

ProductTypes gpu_types_of(const Schedule& s, const GpuProduct& p);
// The row of a table that multiplies these types and can be printed. Only rows of `columns` columns,
// unless that is 0. Null if the target has none.
const Instruction* gpu_find_row(const std::vector<Instruction>& table, const ProductTypes& types,
                                const Target& target, int64_t columns = 0);

// Options of the knob "NAME.mma" beside the warps' row, such as "wgmma_f32_f16",
// "wgmma_f32_f16_turned" (swapped) or "wgmma_sp_f32_f16". Empty if the target has no instruction
// for the types, or the product is too small or (swapped) too large.
std::string gpu_wgmma_way(const RuleContext& c, const GpuProduct& p);
std::string gpu_swapped_wgmma_way(const RuleContext& c, const GpuProduct& p);
std::string gpu_packed_wgmma_way(const RuleContext& c, const GpuProduct& p);

}  // namespace tilewright
