#include "cli/run/run_check.h"

#include <fmt/format.h>

#include <random>

#include "runtime/check/reference.h"

namespace tilewright::cli {
namespace {

constexpr int kMostCompared = 1 << 16;  // where not all elements are
constexpr double kMostBytes = 1e9;

}  // namespace

std::string unwritten_element(const HostArray& output) {
  std::vector<int64_t> left = output.poisoned(HostArray::Poison::First);
  if (left.empty() || !output.poison_is_proof()) return {};
  return fmt::format("{}{} was not written", output.name(),
                     subscripts(output.shape(), left.front()));
}

OutputCheck check_output(const Workload& w, OperandSet& operands,
                         const std::map<std::string, int64_t>& dims, double seconds) {
  const HostArray& output = operands.output();
  const ReferenceLimits limits{
      .seconds = seconds, .bytes = kMostBytes, .samples = kMostCompared, .sample_seconds = seconds};
  Reference reference =
      reference_of(oracle_on(w, operands, dims), output, limits, std::random_device()());
  reference.finite_only = true;
  CheckResult result = compare(output, reference);
  return {result.message, result.compared, reference.sums.has_value()};
}

}  // namespace tilewright::cli
