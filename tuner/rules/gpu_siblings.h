// Products of one operand, side by side in one kernel: gate and up of a gated feed-forward layer.
#pragma once

#include <optional>
#include <vector>

#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

// Asks "NAME.products", NAME the first of several products of the same A that one elementwise block
// reads all results of: "joined", one kernel multiplies each tile of A by the tiles of all weights, and
// joins the sums in registers (as CUTLASS's dual GEMM does); or "apart", a kernel each. Schedules those
// that are joined, and returns the contractions that are left.
std::vector<Block> gpu_join_products(RuleContext& c, const std::vector<Block>& contractions);

// The roles of the first product, with as many of those that follow as are siblings. Nothing where it
// is no product of two parameters that one block reads elementwise; of weights in forms of their own,
// what these are worth, gpu_join_products() alone takes account.
std::optional<GpuRoles> gpu_siblings_of(const Schedule& s, const std::vector<Block>& products);
// The product behind which the results of all are there.
const Block& gpu_last_product(const Block& block, const GpuRoles& roles);
// The product and its siblings, in their order.
std::vector<Block> gpu_products(const Block& block, const GpuRoles& roles);

// The loops of a product by matrix instructions: over tiles of results, over tiles of terms, over the
// instructions of these, over warps, and the one that is marked as instructions.
struct GpuProductLoops {
  Loop grid, k_outer, steps, warp, marked;
};

// Merges the loops over tiles of the products, one entry each: in an iteration over terms each product
// stands behind the one before. Requires that nothing stands between them.
void gpu_merge_loops(RuleContext& c, const std::vector<GpuProductLoops>& products);
// The same where B of the siblings stands between them: it is copied in these loops.
void gpu_join_loops(RuleContext& c, const GpuRoles& roles,
                    const std::vector<GpuProductLoops>& products);

}  // namespace tilewright
