// Small instances of a workload, on which the emulator proves kernels of the large one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/tensor_expr.h"

namespace tilewright {

// The workload with each size that is twice `limit` or more cut down to between one and two limits,
// with the remainder that it had: what divided it still does. Nothing when the sizes do not go
// together any more. The sizes in `longer` have limits of their own, by name; so may other numbers,
// which are cut nowhere else.
std::optional<Workload> shrunk(const Workload& workload, int64_t limit,
                               const std::map<std::string, int64_t>& longer = {});

// Instances that the emulator gets through in seconds, the likeliest to take a config first: all sizes
// short; one of them longer, which groups of tiles and parts of sums take, and beside it another one that
// a wide tile fills; then some sizes very short, stacks, images or groups, beside others that are as long
// as that leaves room for. Of these last no instance is at most as large as another one in every size.
// Behind all come those with two of a stack that no size counts (heads).
std::vector<Workload> emulated_instances(const Workload& workload);

// The same for all configs of a workload, made once, when they are first asked for: for a stack of 32 heads
// they take as long as some proofs. Not thread-safe.
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
