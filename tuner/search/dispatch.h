// Learns the dispatch table of a workload with dynamic dimensions from measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "database/dispatch.h"
#include "tuner/search/finalists.h"
#include "tuner/search/size_plan.h"

namespace tilewright {

struct DispatchOptions {
  int kernels = 8;  // most ranges, and so most kernels, per table
  // Only kernels with the same reduction order at all sizes, so that a row's bits do not depend on
  // the number of rows.
  bool one_order = false;
};

struct DispatchOutcome {
  std::optional<database::DispatchTable> table;
  // Held-out sizes at which the table was slower than the untuned default, before it was learned
  // again with these sizes included.
  std::vector<database::Sizes> mended;
  std::string note;        // why there is no table
  bool predicted = false;  // by a model; nothing was measured
};

// Times the rivals with these indices, in turns, at these sizes. Returns nothing when cancelled.
// The first call covers all rivals.
using SizeTimer = std::function<std::optional<SizeComparison>(
    const std::vector<size_t>& rivals, const std::vector<SizeVector>& sizes, int rounds)>;

// Learns ranges (tuner/search/dispatch_ranges.h) from the rivals' times at the sizes of the plan, and
// verifies them at the held-out sizes. A held-out size at which the chosen kernel is slower than
// the untuned default is learned too, and sizes beside it are held out instead. After three such
// rounds, a range that still loses somewhere gets the untuned default. So every held-out size has
// been measured, and the table is slower at none of them.
//
// The rivals must be valid, and their records must carry their ids; `is_default` marks the untuned
// default. Kernels that computed the same rows count as having one reduction order. Without
// `bits_tell_order` a kernel shares an order only with itself.
DispatchOutcome learn_dispatch(const SizePlan& plan, const std::vector<Finalist>& rivals,
                               const SizeTimer& timer, const DispatchOptions& options,
                               bool bits_tell_order);

// The same with kernels that are run and measured.
DispatchOutcome learn_dispatch(const Workload& workload, const SizePlan& plan,
                               const std::vector<Finalist>& rivals, Measurer& measurer,
                               const MeasureLimits& limits, const DispatchOptions& options);

// Says why a workload has no size plan, and so no table. Empty for a workload without dynamic
// dimensions.
std::string no_table_note(const Workload& workload);

// Whether equal bits on test data imply the same reduction order. False for inputs of narrow
// floats: a sum of their products may be exact in any order.
bool bits_tell_order(const Workload& workload);

}  // namespace tilewright
