// Which workload to spend the next trials on.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright {

// Spends rounds where they promise to save the most time over all workloads (the gradient
// approximation of Zheng et al., "Ansor", OSDI 2020, section 6.1): each workload once, then the one
// with the largest weight times expected gain, judged by its recent progress and by how little was
// tried. Deterministic.
class TaskScheduler {
 public:
  // One weight a workload: how often it runs in the model that is tuned for.
  explicit TaskScheduler(std::vector<double> weights);

  // The workload for the next round, or -1 when all are exhausted.
  int next() const;
  // What the round gave: the best seconds so far (0: nothing valid yet), and how many trials the
  // workload has had.
  void report(int task, double best_seconds, int64_t trials);
  void exhaust(int task);  // nothing more to try

 private:
  struct State {
    double weight;
    std::vector<double> best;  // after each round
    int64_t trials = 0;
    bool exhausted = false;
  };
  double gain(const State& s) const;

  std::vector<State> tasks_;
};

}  // namespace tilewright
