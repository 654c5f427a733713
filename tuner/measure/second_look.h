// Candidates that may win are timed again: other work slows a machine for seconds, and a candidate that was timed
// meanwhile would be lost.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/measure/measurer.h"

namespace tilewright {

// Remembers the fastest kernel of the last workload, which tells by its own time whether the machine is slow now. Not
// thread-safe.
class SecondLook {
 public:
  static constexpr double kMayWin = 1.5;  // times the best time: candidates that are timed again
  static constexpr double kUndisturbed =
      1.02;  // times its least time: the fastest kernel is as fast as it was
  static constexpr int kMostLooks = 3;

  // Times a correct kernel once more: samples in seconds. None: it failed, or a limit was reached.
  using Timer = std::function<std::vector<double>(const Measurement&)>;

  // Whether a candidate is valid and at most so many times slower than `best_seconds`, by its least sample.
  static bool is_within(const Measurement& m, double times, double best_seconds);

  // Times those of a batch again that may win or whose timing was cut off, and keeps the better timing of each. Repeats this up to kMostLooks times,
  // as long as the fastest kernel so far is slower than it was. Then the fastest of the batch may take its place.
  void look(const std::string& workload_hash, std::span<Measurement> batch, double best_seconds,
            const Timer& timer);

 private:
  std::string workload_hash_;
  std::optional<Measurement> fastest_;
};

}  // namespace tilewright
