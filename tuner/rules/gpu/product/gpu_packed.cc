#include "tuner/rules/gpu/product/gpu_packed.h"

#include <string>
#include <vector>

#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/product/gpu_gemv.h"
#include "tuner/rules/gpu/product/gpu_product.h"
#include "tuner/rules/gpu/weight/gpu_grouped.h"

namespace tilewright {
namespace {

// Multiplies a single weight with warp instructions.
void multiply_by_warps(RuleContext& c, const Block& block, const GpuRoles& roles,
                       const Packable& weight) {
  const GpuProduct p{block, roles, {weight}};
  gpu_build_product(c, p, gpu_ask_packed_mma(c, p));
}

// A weight whose elements instructions take as they are.
bool pack_plain(RuleContext& c, const Block& block, GpuRoles& roles) {
  std::optional<Packable> weight = packable_as_it_is(c, block, roles);
  if (!weight) return false;
  const std::string layout =
      c.t.choose(block.name + "." + weight->format.weight + ".layout",
                 std::vector<std::string>{"none", "tiles", "ldmatrix", "fragments"});
  if (layout == "tiles") roles.weight = GpuRoles::WeightLayout::Tiles;
  if (layout == "ldmatrix") roles.weight = GpuRoles::WeightLayout::Matrices;
  if (layout != "fragments") return false;
  multiply_by_warps(c, block, roles, *weight);
  return true;
}

// Few-bit activations as they are stored; the other choice is bytes, as for any other instruction.
bool pack_beside_few_bits(RuleContext& c, const Block& block, GpuRoles& roles) {
  std::optional<Packable> weight = packable_beside_few_bits(c, block, roles);
  if (!weight) return false;
  const std::string stored = to_string(*gpu_param_elem(c.s, weight->stored));
  const std::string question = block.name + "." + weight->stored + ".elements";
  if (c.t.choose(question, std::vector<std::string>{stored, "i8"}) == "i8") return false;
  c.s.compute_inline(*weight->bytes);
  roles.a = weight->stored;
  multiply_by_warps(c, block, roles, *weight);
  return true;
}

// The layout of a few-bit weight in memory: for matrix instructions, for threads that multiply it
// by a few vectors (GEMV), or as it is.
std::string few_bits_layout(RuleContext& c, const Block& block, const GpuRoles& roles,
                            bool fragments) {
  std::vector<std::string> layouts;
  if (fragments) layouts.emplace_back("fragments");
  if (!gpu_looks_up(c, block, roles.b) && gpu_gemv_takes_words(c, block, roles)) {
    layouts.emplace_back("words");
  }
  layouts.emplace_back("none");
  if (layouts.size() == 1) return layouts[0];
  return c.t.choose(block.name + "." + c.input.workload.weight->weight + ".layout", layouts);
}

}  // namespace

bool gpu_packed_contraction(RuleContext& c, const Block& block, GpuRoles& roles) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format) return pack_plain(c, block, roles);
  if (pack_beside_few_bits(c, block, roles)) return true;
  const std::string key = block.name + "." + format->weight;
  std::optional<Packable> halves = packable(c, block, roles, Multiplied::Halves),
                          kept = packable(c, block, roles, Multiplied::Kept);
  std::vector<std::string> ways;
  if (halves) ways.emplace_back("halves");
  if (kept) {  // first if the pattern keeps less than half
    ways.insert(2 * format->keep < format->of ? ways.begin() : ways.end(), "kept");
  }
  ways.emplace_back("zeros");
  if (ways.size() > 1) {
    const std::string way = c.t.choose(key + ".sparse", ways);
    if (way != "zeros") {
      if (way == "halves") gpu_multiply_fragments(c, block, roles, {*halves});
      if (way == "kept") multiply_by_warps(c, block, roles, *kept);
      return true;
    }
  }
  std::optional<Packable> weight = packable(c, block, roles, Multiplied::All);
  const std::string layout = few_bits_layout(c, block, roles, weight.has_value());
  if (layout == "fragments") {
    weight->value = gpu_take_groups(c, block, roles, *weight->value);
    gpu_multiply_fragments(c, block, roles, {*weight});
  }
  if (layout == "words") gpu_gemv_by_words(c, block, roles);
  return layout != "none";
}

}  // namespace tilewright
