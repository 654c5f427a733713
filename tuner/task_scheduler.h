// Which workload to spend the next trials on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

// Spends rounds where they promise the most (the gradient approximation of Zheng et al., "Ansor",
// OSDI 2020, section 6.1): each workload once, then the one with the largest expected gain, judged
// by its recent progress and by how little was tried. Deterministic.
class TaskScheduler {
 public:
  // Workloads that have nothing to do with each other: the gain is a share of each one's own time
  // (of the geometric mean over all), so that small ones get their turns.
  explicit TaskScheduler(size_t workloads);
  // Workloads of one model, and how often each runs in it: the gain is in seconds of the model.
  explicit TaskScheduler(const std::vector<double>& uses);

  // The workload for the next round, or -1 when all are exhausted.
  int next() const;
  // When the next round is to end, of a search that ends at `end` (both in seconds of one clock): the
  // first round of a workload leaves those that wait for theirs as much time as it has itself, but
  // takes no less than what something comes of.
  double round_end(double now, double end) const;
  // How many candidates a first round that takes so many seconds is to propose: proposing a whole
  // batch may take longer than a short round.
  static int first_trials(double seconds);
  // What the round gave: the best seconds so far (0: nothing valid yet), and how many trials the
  // workload has had.
  void report(int task, double best_seconds, int64_t trials);
  void exhaust(int task);  // nothing more to try

 private:
  struct State {
    double uses;               // 0: the gain is relative
    std::vector<double> best;  // after each round
    int64_t trials = 0;
    bool exhausted = false;
  };
  double gain(const State& s) const;

  std::vector<State> tasks_;
};

}  // namespace tilewright
