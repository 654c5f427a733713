// The ways of contractions on a GPU with matrix instructions.
#include <utility>

#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/gpu/product/gpu_product.h"

namespace tilewright {

bool gpu_has_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  return gpu_find_row(mma_rows(), gpu_types_of(c.s, {block, roles}), c.input.target) != nullptr;
}

bool gpu_tensor_contraction(RuleContext& c, const Block& block, const GpuRoles& roles) {
  const GpuProduct p{block, roles};
  const Instruction* row = gpu_find_row(mma_rows(), gpu_types_of(c.s, p), c.input.target);
  if (!row) return false;
  std::vector<std::string> ways = {std::string(row->name)};
  // Stored layouts and joined products exist for matrix instructions only.
  const bool is_joint = !roles.siblings.empty();
  if (roles.weight == GpuRoles::WeightLayout::AsItIs && !is_joint) ways.emplace_back("none");
  // wgmma variants come after these, so that earlier first choices stay the same.
  const std::string wgmma = gpu_wgmma_way(c, p), swapped = gpu_swapped_wgmma_way(c, p);
  for (const std::string& way : {wgmma, swapped}) {
    if (!way.empty()) ways.push_back(way);
  }
  if (!row->split.empty() && !is_joint) std::swap(ways.front(), ways.back());
  const std::string way = c.t.choose(block.name + ".mma", ways);
  if (way == "none") return false;
  gpu_build_product(c, p,
                    way == wgmma     ? gpu_ask_wgmma(c, p)
                    : way == swapped ? gpu_ask_swapped_wgmma(c, p)
                                     : gpu_ask_mma(c, p, *row));
  return true;
}

void gpu_multiply_fragments(RuleContext& c, const Block& block, const GpuRoles& roles,
                            const std::vector<Packable>& weights) {
  const GpuProduct p{block, roles, weights};
  const std::string way = gpu_packed_wgmma_way(c, p), warps(weights.front().row.name);
  const bool is_wgmma =
      !way.empty() && c.t.choose(block.name + ".mma", std::vector<std::string>{warps, way}) == way;
  gpu_build_product(c, p, is_wgmma ? gpu_ask_packed_wgmma(c, p) : gpu_ask_packed_mma(c, p));
}

}  // namespace tilewright
