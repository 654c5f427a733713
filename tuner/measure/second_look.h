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

// Keeps the faster of a kernel's own timing and another one: the lesser median, with its samples, and the least sample
// of both.
void take_faster(Measurement& m, std::vector<double> samples, double median);

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
  // Whether a candidate is timed again: it may win, or its timing was cut off.
  static bool is_due(const Measurement& m, double best_seconds);

  // Times the candidates of a batch again that are due, and keeps the faster timing of each. Repeats this up to
  // kMostLooks times for those that may win, as long as the fastest kernel so far is slower than it was. Then the fastest
  // of the batch that was checked in full may take its place.
  void look(const std::string& workload_hash, std::span<Measurement> batch, double best_seconds,
            const Timer& timer);

 private:
  // Seconds of the fastest kernel now; 0: it is not known.
  double fastest_now(const Timer& timer) const;

  std::string workload_hash_;
  std::optional<Measurement> fastest_;
  double usual_ =
      0;  // its seconds while nothing disturbs; those of the last look where that never ended
};

}  // namespace tilewright
