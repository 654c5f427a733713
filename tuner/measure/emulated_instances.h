// Small instances of a workload, on which the emulator checks the large one's kernels.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// Reduces each size of at least 2 * `limit` to between `limit` and 2 * `limit`. The remainder
// modulo `limit` stays, so that common divisors still divide the size. Returns nothing if the sizes
// no longer fit together. `longer` gives some sizes limits of their own, by name.
std::optional<Workload> shrunk(const Workload& workload, int64_t limit,
                               const std::map<std::string, int64_t>& longer = {});

// Instances that the emulator runs in seconds, the likeliest to take a config first:
// - all sizes short;
// - one size longer (for groups of tiles and split reductions), and beside it another one that a
//   wide tile fills;
// - some sizes very short (stacks, images, groups), the others as long as the budget allows.
//   None of these is at most as large as another in every size;
// - instances with two of a stack that is not counted by a size (heads);
// - instances of a last resort, which take the emulator longer.
std::vector<Workload> emulated_instances(const Workload& workload);

// Whether the emulator runs an instance in seconds, one that grew for its kernel included.
bool is_emulated_in_seconds(const Workload& workload);

// An instance with one size longer.
struct LongerInstance {
  std::string size;
  int64_t from = 0, to = 0;
  Workload workload;
};
// Instances of `large` with one size of `small` longer, by about the size itself and by about half
// of it. Steps are powers of two and no shorter than a wide tile or the size, so remainders stay.
std::vector<LongerInstance> longer_instances(const Workload& small, const Workload& large);
// The workload with a size of that length; nothing if it is not valid.
std::optional<Workload> with_size(const Workload& workload, const std::string& size, int64_t to);

// The instances of a workload for all its configs, made on first use: a stack of 32 heads makes
// this as slow as some checks. Not thread-safe.
class EmulatedInstances {
 public:
  explicit EmulatedInstances(Workload workload) : workload_(std::move(workload)) {}

  const Workload& workload() const { return workload_; }
  const std::vector<Workload>& all() {
    if (!all_) all_ = emulated_instances(workload_);
    return *all_;
  }

 private:
  Workload workload_;
  std::optional<std::vector<Workload>> all_;
};

}  // namespace tilewright
