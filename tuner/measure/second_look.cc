#include "tuner/measure/second_look.h"

#include <algorithm>
#include <utility>

namespace tilewright {
namespace {

// A run that took several times as long as the best ended the timing at once: it may have been a stall.
bool was_cut_off(const Measurement& m) {
  constexpr size_t kFewest = 3;  // samples of other timings
  return m.verdict == TrialVerdict::Valid && m.samples.size() < kFewest;
}

}  // namespace

void take_faster(Measurement& m, std::vector<double> samples, double median) {
  if (samples.empty()) return;
  if (median < m.median) {
    std::swap(m.samples, samples);
    std::swap(m.median, median);
  }
  if (samples.empty()) return;
  const double least = std::ranges::min(samples);
  if (least < least_sample(m)) m.samples.push_back(least);
}

bool SecondLook::is_within(const Measurement& m, double times, double best_seconds) {
  return m.verdict == TrialVerdict::Valid && least_sample(m) <= times * best_seconds;
}

bool SecondLook::is_due(const Measurement& m, double best_seconds) {
  return is_within(m, kMayWin, best_seconds) || was_cut_off(m);
}

double SecondLook::fastest_now(const Timer& timer) const {
  if (!fastest_) return 0;
  const std::vector<double> samples = timer(*fastest_);
  return samples.empty() ? 0 : std::ranges::min(samples);
}

void SecondLook::look(const std::string& workload_hash, std::span<Measurement> batch,
                      double best_seconds, const Timer& timer) {
  if (workload_hash != workload_hash_) {
    workload_hash_ = workload_hash;
    fastest_.reset();
  }
  std::vector<Measurement*> due;
  for (Measurement& m : batch) {
    if (is_due(m, best_seconds)) due.push_back(&m);
  }
  for (int look = 0; look < kMostLooks && !due.empty(); ++look) {
    const double now = fastest_now(timer);
    const bool is_slow = now > kUndisturbed * usual_;
    for (Measurement* m : due) {
      std::vector<double> samples = timer(*m);
      const double median = samples.empty() ? 0 : median_of(samples);
      take_faster(*m, std::move(samples), median);
    }
    if (now > 0 && (!is_slow || look + 1 == kMostLooks))
      usual_ = is_slow ? now : std::min(now, usual_);
    if (!is_slow) break;
    std::erase_if(due, [&](const Measurement* m) { return !is_within(*m, kMayWin, best_seconds); });
  }
  for (const Measurement& m : batch) {
    if (!is_within(m, 1, best_seconds) || !m.in_full) continue;
    if (fastest_ && least_sample(m) >= least_sample(*fastest_)) continue;
    fastest_ = m;
    usual_ = least_sample(m);
  }
}

}  // namespace tilewright
