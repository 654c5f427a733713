// Learns the dispatch table of a workload with dynamic dimensions from measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "database/dispatch.h"
#include "tuner/finalists.h"
#include "tuner/size_plan.h"

namespace tilewright {

struct DispatchOptions {
  int kernels = 8;  // most ranges, and so most kernels, of a table
  // Only kernels that add up in one order at all sizes, so that a row's bits do not depend on how
  // many rows there are.
  bool one_order = false;
};

struct DispatchOutcome {
  std::optional<database::DispatchTable> table;
  // Sizes that were held out, at which the table was slower than the untuned default before it was
  // learnt anew with them.
  std::vector<database::Sizes> mended;
  std::string note;        // why there is no table
  bool predicted = false;  // by a model: nothing was measured
};

// Times some of the rivals, by their index, in turns at these sizes; nothing when cancelled. It is
// asked for all of them first.
using SizeTimer = std::function<std::optional<SizeComparison>(
    const std::vector<size_t>& rivals, const std::vector<SizeVector>& sizes, int rounds)>;

// Times the rivals at the sizes of the plan, learns ranges (tuner/dispatch_ranges.h), and verifies
// them at the sizes held out: where the chosen kernel is slower than the untuned default, that size
// is learnt, too, and sizes beside it are held out in its place. After three such rounds a range that
// still loses somewhere gets the untuned default, so that every size held out has been measured, and
// at none the table is slower. The rivals are right, their records carry their ids; the default among
// them is the one that says so. Kernels that computed the same rows add up in one order; unless
// `bits_tell_order`, only a kernel with itself.
DispatchOutcome learn_dispatch(const SizePlan& plan, const std::vector<Finalist>& rivals,
                               const SizeTimer& timer, const DispatchOptions& options,
                               bool bits_tell_order);

// The same with kernels that run.
DispatchOutcome learn_dispatch(const Workload& workload, const SizePlan& plan,
                               const std::vector<Finalist>& rivals, Measurer& measurer,
                               const MeasureLimits& limits, const DispatchOptions& options);

// Why a workload has no plan of sizes, and so no table; empty for one without dynamic dimensions.
std::string no_table_note(const Workload& workload);

// Whether equal bits of test data say that sums were formed in the same order: not where products
// of narrow floats leave a sum room to be exact in any order.
bool bits_tell_order(const Workload& workload);

}  // namespace tilewright
