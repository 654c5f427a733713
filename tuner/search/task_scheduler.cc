#include "tuner/search/task_scheduler.h"

#include <algorithm>

namespace tilewright {
namespace {

constexpr size_t kWindow = 3;      // rounds of recent progress
constexpr double kLeastRound = 3;  // seconds
constexpr double kTrial = 0.5;     // seconds that proposing and measuring a candidate take, about
constexpr int kMostFirst = 64;
constexpr double kOptimism = 0.05;  // of a first round's time is hoped for in the second

}  // namespace

TaskScheduler::TaskScheduler(size_t workloads) : tasks_(workloads, State{0, {}, 0, false}) {}

TaskScheduler::TaskScheduler(const std::vector<double>& uses) {
  for (double u : uses) tasks_.push_back({u, {}, 0, false});
}

double TaskScheduler::gain(const State& s) const {
  size_t rounds = s.best.size();
  double now = s.best.back();
  if (now == 0) return 1e9 / static_cast<double>(rounds);  // nothing valid yet: keep trying
  double before = s.best[rounds > kWindow ? rounds - 1 - kWindow : 0];
  double recent = before > 0 ? (before - now) / static_cast<double>(std::min(rounds, kWindow)) : 0;
  double hoped = kOptimism * now / static_cast<double>(rounds);
  double seconds = std::max(recent, hoped);
  return s.uses > 0 ? s.uses * seconds : seconds / now;
}

int TaskScheduler::next() const {
  int best = -1;
  double most = -1;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const State& s = tasks_[i];
    if (s.exhausted) continue;
    if (s.best.empty()) return static_cast<int>(i);
    double g = gain(s);
    if (g > most) {
      most = g;
      best = static_cast<int>(i);
    }
  }
  return best;
}

double TaskScheduler::round_end(double now, double end) const {
  auto waits = [](const State& s) { return s.best.empty() && !s.exhausted; };
  const auto waiting = std::count_if(tasks_.begin(), tasks_.end(), waits);
  if (waiting < 2) return end;
  return std::min(end, now + std::max(kLeastRound, (end - now) / static_cast<double>(waiting)));
}

int TaskScheduler::first_trials(double seconds) {
  return static_cast<int>(std::clamp(seconds / kTrial, 2.0, 1.0 * kMostFirst));
}

void TaskScheduler::report(int task, double best_seconds, int64_t trials) {
  tasks_[static_cast<size_t>(task)].best.push_back(best_seconds);
  tasks_[static_cast<size_t>(task)].trials = trials;
}

void TaskScheduler::exhaust(int task) { tasks_[static_cast<size_t>(task)].exhausted = true; }

}  // namespace tilewright
