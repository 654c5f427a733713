#include "tuner/measure/second_look.h"

#include <algorithm>
#include <utility>

namespace tilewright {
namespace {

// Keeps the better timing of a kernel. Returns the least sample of this one; 0: there is none.
double time_again(Measurement& m, const SecondLook::Timer& timer) {
  std::vector<double> samples = timer(m);
  if (samples.empty()) return 0;
  const double least = std::ranges::min(samples);
  if (least < least_sample(m)) {
    m.median = median_of(samples);
    m.samples = std::move(samples);
  }
  return least;
}

// A run that took several times as long as the best ended the timing at once: it may have been a stall.
bool was_cut_off(const Measurement& m) {
  constexpr size_t kFewest = 3;  // samples of other timings
  return m.verdict == TrialVerdict::Valid && m.samples.size() < kFewest;
}

}  // namespace

bool SecondLook::is_within(const Measurement& m, double times, double best_seconds) {
  return m.verdict == TrialVerdict::Valid && least_sample(m) <= times * best_seconds;
}

void SecondLook::look(const std::string& workload_hash, std::span<Measurement> batch,
                      double best_seconds, const Timer& timer) {
  if (workload_hash != workload_hash_) {
    workload_hash_ = workload_hash;
    fastest_.reset();
  }
  for (int look = 0; look < kMostLooks; ++look) {
    bool is_disturbed = false;
    if (fastest_) {
      const double before = least_sample(*fastest_);
      is_disturbed = time_again(*fastest_, timer) > kUndisturbed * before;
    }
    for (Measurement& m : batch) {
      if (is_within(m, kMayWin, best_seconds) || was_cut_off(m)) time_again(m, timer);
    }
    if (!is_disturbed) break;
  }
  for (const Measurement& m : batch) {
    if (!is_within(m, 1, best_seconds)) continue;
    if (!fastest_ || least_sample(m) < least_sample(*fastest_)) fastest_ = m;
  }
}

}  // namespace tilewright
