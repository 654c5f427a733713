// Sparse weights.
#include <algorithm>

#include "tuner/rules/analysis.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

// Whether the weight can be compressed: along one dimension, and worth nothing where it holds zeros.
bool compressible(const WeightFormat& format) {
  return format.sparse() && format.k_dims.size() == 1 && format.zero.empty();
}

bool reads_weight(RuleContext& c, const Block& block, const WeightFormat& format) {
  std::vector<std::string> inputs = inputs_of(c.s.node(block));
  return std::count(inputs.begin(), inputs.end(), format.weight) > 0;
}

}  // namespace

void compress_weight(RuleContext& c, const Block& block) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format || !compressible(*format)) return;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if (!value && !reads_weight(c, block, *format)) return;
  std::vector<std::string> ways = {"zeros", "compressed"};
  // A vector of columns that shares its rows takes one element of the other operand for all lanes;
  // else each lane looks its own up, which is seldom worth it.
  if (format->vector % c.input.target.f32_lanes() == 0) std::swap(ways[0], ways[1]);
  if (c.t.choose(block.name + "." + format->weight + ".sparse", ways) == "zeros") return;
  if (value) c.s.compute_inline(*value);
  c.s.compress_nm(block, format->weight, format->keep, format->of, format->vector);
}

}  // namespace tilewright
