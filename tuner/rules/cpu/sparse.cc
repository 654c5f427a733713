// Sparse weights.
#include <algorithm>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/cpu/group_scale.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

// Whether zeros can be left out, and groups do not continue from one row of a convolution's window
// into the next. A partial last group is refused only if there are zero points.
bool compressible(const WeightFormat& format, const Workload& workload) {
  if (!format.sparse() || format.keep == format.of) return false;
  std::vector<int64_t> shape = const_shape(stored_weight(workload).buffer);
  bool whole = shape[static_cast<size_t>(format.k_dims.back())] % format.of == 0;
  return whole || (format.k_dims.size() == 1 && format.zero.empty());
}

bool reads_weight(RuleContext& c, const Block& block, const WeightFormat& format) {
  std::vector<std::string> inputs = inputs_of(c.s.node(block));
  return std::count(inputs.begin(), inputs.end(), format.weight) > 0;
}

// The type of the narrowest elements that the block multiplies.
ElemType narrowest(RuleContext& c, const Block& block) {
  ElemType least = ElemType::f64;
  for_each_expr(store_of(c.s.node(block)).value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (load && bits_of(load->buffer->elem) < bits_of(least)) least = load->buffer->elem;
  });
  return least;
}

// Whether lanes can look up one of a few neighbours by a shuffle. The output must have few rows, so
// that the other operand is rarely read.
bool few_uses(RuleContext& c, const Block& block, const WeightFormat& format) {
  constexpr int64_t kFewRows = 2;
  if (format.vector != 1 || format.of > 16 || (format.of & (format.of - 1)) != 0) return false;
  BlockFacts facts = analyze(c.s, block);
  int64_t points = 1;
  for (int i : facts.spatial) points *= facts.extents[static_cast<size_t>(i)];
  std::vector<int64_t> shape = const_shape(stored_weight(c.input.workload).buffer);
  int64_t columns = shape[static_cast<size_t>(format.column_dim)];
  return points <= kFewRows * columns;
}

}  // namespace

std::optional<KeptWeight> compress_weight(RuleContext& c, const Block& block) {
  const std::optional<WeightFormat>& format = c.input.workload.weight;
  if (!format || !compressible(*format, c.input.workload)) return std::nullopt;
  std::optional<Block> value = weight_value_of(c.s, block, c.input.workload);
  if (!value && !reads_weight(c, block, *format)) return std::nullopt;
  // Columns in a vector that share their rows take one element of the other operand for all lanes.
  // Otherwise each lane looks up its own, which pays if the bytes of the weight count. If dot
  // products of decoded elements fit, they must also take looked-up elements, since they are far
  // quicker. Gathered bytes need separate sums, which cost more than the zeros.
  std::vector<std::string> ways = {"zeros", "compressed"};
  const bool shared = format->vector % c.input.target.f32_lanes() == 0;
  const bool few = few_uses(c, block, *format);
  if (shared || few) std::swap(ways[0], ways[1]);
  const ElemType other = narrowest(c, block);
  const bool looked_up = few && looks_up_for_each_lane(c.input.workload, other, c.input.target);
  if (value && bits_of(other) < 32 && !looked_up && (!shared || bits_of(other) == 8)) {
    ways = {"zeros"};
  }
  if (c.t.choose(block.name + "." + format->weight + ".sparse", ways) == "zeros") {
    return std::nullopt;
  }
  if (value) c.s.compute_inline(*value);
  c.s.compress_nm(block, format->weight, format->keep, format->of, format->vector);
  const std::vector<std::string>& made = c.s.trace().steps.back().results;
  return KeptWeight{made[0], made[1]};
}

}  // namespace tilewright
