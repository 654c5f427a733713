// Dual GEMM: products of one operand side by side in one kernel (gate and up of a gated
// feed-forward layer).
#pragma once

#include <optional>
#include <vector>

#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// The choice of one kernel per product.
inline constexpr const char* kApart = "apart";

// Asks the knob "NAME.products", NAME the first of several products of the same A whose results one
// elementwise block reads. "joined": one kernel multiplies each tile of A by the tiles of all
// weights, and combines the accumulators in registers (like CUTLASS's dual GEMM). "apart": one
// kernel per product. Schedules the joined ones, and returns the remaining contractions.
std::vector<Block> gpu_join_products(RuleContext& c, const std::vector<Block>& contractions);

// The roles of the first product, with the following products that are its siblings. Nothing if it
// is not a product of two parameters that one block reads elementwise. Only gpu_join_products()
// accepts weights in forms of their own, by their dequantized values.
std::optional<GpuRoles> gpu_siblings_of(const Schedule& s, const std::vector<Block>& products);
// The last product: after it all results are complete.
const Block& gpu_last_product(const Block& block, const GpuRoles& roles);
// The product and its siblings, in order.
std::vector<Block> gpu_products(const Block& block, const GpuRoles& roles);

// The loops of a product with matrix instructions. They run over result tiles, k tiles, the
// instructions of a k tile, and warps; `marked` is the loop that stands for instructions.
struct GpuProductLoops {
  Loop grid, k_outer, steps, warp, marked;
};

// Merges the tile loops of the products, one entry each: in each k iteration the products follow
// one another. Nothing may stand between them.
void gpu_merge_loops(RuleContext& c, const std::vector<GpuProductLoops>& products);

}  // namespace tilewright
