#include "tuner/search/task_scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace tilewright {
namespace {

constexpr size_t kWindow = 3;      // rounds of recent progress
constexpr double kLeastRound = 1;  // seconds
constexpr double kTrial = 0.5;     // seconds that proposing and measuring a candidate take, about
constexpr int kMostFirst = 64;
constexpr double kMostShare = 0.5;  // of the time that is left, for one first round
constexpr double kOptimism = 0.05;  // of a first round's time is hoped for in the second
constexpr double kFirstHope = 0.8;  // of what a workload takes is hoped for in its first round

}  // namespace

TaskScheduler::TaskScheduler(size_t workloads) : tasks_(workloads, State{0}) {}

TaskScheduler::TaskScheduler(const std::vector<double>& uses) {
  for (double u : uses) tasks_.push_back({u});
}

TaskScheduler TaskScheduler::of(size_t workloads, const std::vector<double>& uses) {
  TW_ASSERT(uses.empty() || uses.size() == workloads, "uses are said of every workload");
  return uses.empty() ? TaskScheduler(workloads) : TaskScheduler(uses);
}

double TaskScheduler::gain(const State& s) const {
  size_t rounds = s.best.size();
  double now = s.best.back();
  // Nothing valid yet: keeps trying, but not at the cost of all others.
  if (now == 0) return rounds > kWindow ? 0 : 1e9 / static_cast<double>(rounds);
  double before = s.best[rounds > kWindow ? rounds - 1 - kWindow : 0];
  double recent = before > 0 ? (before - now) / static_cast<double>(std::min(rounds, kWindow)) : 0;
  double hoped = kOptimism * now / static_cast<double>(rounds);
  double seconds = std::max(recent, hoped);
  return s.uses > 0 ? s.uses * seconds : seconds / now;
}

void TaskScheduler::expect(int task, double seconds) {
  State& s = tasks_[static_cast<size_t>(task)];
  s.expected = s.uses * seconds;
}

// The first workload without a known time, else that of the most; -1 where none waits.
int TaskScheduler::next_waiting() const {
  int most = -1;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    if (!tasks_[i].waits()) continue;
    if (tasks_[i].expected == 0) return static_cast<int>(i);
    if (most < 0 || tasks_[i].expected > tasks_[static_cast<size_t>(most)].expected) {
      most = static_cast<int>(i);
    }
  }
  return most;
}

int TaskScheduler::next() const {
  int best = next_waiting();
  double most = -1;
  if (best >= 0) {
    const double expected = tasks_[static_cast<size_t>(best)].expected;
    if (expected == 0) return best;
    most = kFirstHope * expected;
  }
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const State& s = tasks_[i];
    if (s.exhausted || s.waits()) continue;
    double g = gain(s);
    if (g > most) {
      most = g;
      best = static_cast<int>(i);
    }
  }
  return best;
}

double TaskScheduler::round_end(int task, double now, double end) const {
  const State& own = tasks_[static_cast<size_t>(task)];
  double waiting = 0, all = 0;
  for (const State& s : tasks_) {
    if (!s.waits()) continue;
    ++waiting;
    all += s.expected;
  }
  if (waiting < 2 || !own.waits()) return end;
  const double share = own.expected > 0 ? std::min(own.expected / all, kMostShare) : 1 / waiting;
  return std::min(end, now + std::max(kLeastRound, share * (end - now)));
}

int TaskScheduler::first_trials(double seconds) {
  return static_cast<int>(std::clamp(seconds / kTrial, 2.0, 1.0 * kMostFirst));
}

void TaskScheduler::report(int task, double best_seconds, int64_t trials) {
  State& s = tasks_[static_cast<size_t>(task)];
  s.best.push_back(best_seconds);
  s.trials.push_back(trials);
  if (gains_too_little(s)) s.exhausted = s.settled = true;
}

// Compares with the last round that is so many trials ago.
bool TaskScheduler::gains_too_little(const State& s) const {
  const auto later =
      std::ranges::upper_bound(s.trials, s.trials.back() - kWatchedTrials);  // rounds since then
  if (least_gain_ <= 0 || later == s.trials.begin()) return false;
  const double before = s.best[static_cast<size_t>(later - s.trials.begin()) - 1];
  return before > 0 && before < (1 + least_gain_) * s.best.back();
}

void TaskScheduler::exhaust(int task) { tasks_[static_cast<size_t>(task)].exhausted = true; }

}  // namespace tilewright
