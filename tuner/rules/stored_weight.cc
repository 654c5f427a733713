#include "tuner/rules/stored_weight.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ir/weight_formats.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

// The workload with the weight of this block.
Workload with_weight_of(const RuleContext& c, const Block& block) {
  Workload workload = c.input.workload;
  const std::vector<WeightFormat> formats = weight_formats(workload);
  if (formats.size() < 2) return workload;
  const std::vector<std::string> inputs = inputs_of(c.s.node(block));
  for (const WeightFormat& format : formats) {
    workload.weight = format;
    const bool reads = std::ranges::count(inputs, format.weight) > 0;
    if (reads || weight_value_of(c.s, block, workload)) return workload;
  }
  workload.weight = formats.front();
  return workload;
}

}  // namespace

WeightContext::WeightContext(const RuleContext& c, const Block& block)
    : workload_(with_weight_of(c, block)), input_{workload_, c.input.target, c.input.threads},
      context_{c.s, c.t, input_} {}

}  // namespace tilewright
