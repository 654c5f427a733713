#include "cli/run_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/reference.h"
#include "runtime/timer.h"

namespace tilewright::cli {
namespace {

constexpr int kMostCompared = 1 << 16;
constexpr double kMostBytes = 1e9;     // for comparing every element
constexpr size_t kLeastCompared = 16;  // whatever the time

// In an order that has some from everywhere at each point.
std::vector<int64_t> places_of(const HostArray& output) {
  std::vector<int64_t> places = sample_indices(output.shape(), kMostCompared, 0);
  std::shuffle(places.begin(), places.end(), std::mt19937_64(std::random_device()()));
  return places;
}

}  // namespace

std::string unwritten_element(const HostArray& output) {
  std::vector<int64_t> left = output.poisoned(HostArray::Poison::First);
  if (left.empty() || !output.poison_is_proof()) return {};
  return fmt::format("{}{} was not written", output.name(),
                     subscripts(output.shape(), left.front()));
}

OutputCheck check_output(const Workload& w, OperandSet& operands,
                         const std::map<std::string, int64_t>& dims, double seconds) {
  std::map<std::string, ElementReader> readers;
  for (const OperandInfo& info : operands.infos()) {
    if (info.role == ParamRole::Output) continue;
    readers[info.name] = [&array = operands.at(info.name)](int64_t i) { return array.get(i); };
  }
  Oracle oracle(w, readers, dims);
  const HostArray& output = operands.output();
  const double deadline = steady_seconds() + seconds;
  Reference reference;
  auto add = [&](int64_t place, const Expected& want) {
    if (!std::isfinite(want.value) || !std::isfinite(want.bound)) return;
    reference.indices.push_back(place);
    reference.values.push_back(want);
  };
  const Oracle::WholeCost cost = oracle.whole_cost();
  if (cost.seconds < seconds && cost.bytes < kMostBytes) {
    const Reference whole = whole_reference(output.elem(), output.shape(), oracle);
    for (size_t i = 0; i < whole.values.size(); ++i) add(whole.index_of(i), whole.values[i]);
  } else {
    size_t looked_at = 0;
    for (int64_t place : places_of(output)) {
      if (++looked_at > kLeastCompared && steady_seconds() > deadline) break;
      add(place, expected(output.elem(), oracle.at(place)));
    }
  }
  CheckResult result = compare(output, reference);
  return {result.message, result.compared};
}

}  // namespace tilewright::cli
