// Decides which workload gets the next trials.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

// Spends rounds where they promise the most (the gradient approximation of Zheng et al., "Ansor",
// OSDI 2020, section 6.1). The largest expected gain wins, estimated from recent progress and the number of
// rounds so far. A workload without a round hopes for most of the seconds that it is known to take in its
// model; where these are not known, it goes first. Deterministic.
class TaskScheduler {
 public:
  // Independent workloads: the gain is a share of each one's own time (the geometric mean over
  // all), so that small workloads get their turns.
  explicit TaskScheduler(size_t workloads);
  // Workloads of one model, with the number of uses of each: the gain is in seconds of the model.
  explicit TaskScheduler(const std::vector<double>& uses);

  // The one or the other: `uses` is empty, or has a number for each workload.
  static TaskScheduler of(size_t workloads, const std::vector<double>& uses);

  // How many seconds a kernel that is there takes, before the workload's first round. Workloads of which
  // none is known go first.
  void expect(int task, double seconds);
  // The workload of the next round, or -1 if all are exhausted.
  int next() const;
  // The end of the workload's next round in a search that ends at `end` (both in seconds of one clock). Its
  // first round gets the share that it has in the time of all that wait for theirs, at most half of what is
  // left; an equal share where its time is not known. It takes at least kLeastRound seconds, to be of use.
  double round_end(int task, double now, double end) const;
  // How many candidates a first round that takes so many seconds is to propose: proposing a whole
  // batch may take longer than a short round.
  static int first_trials(double seconds);
  // Ends a workload whose last kWatchedTrials made it faster by less than this share; 0: none.
  void end_below(double least_gain) { least_gain_ = least_gain; }
  static constexpr int64_t kWatchedTrials = 24;
  // Takes the result of a round: the best seconds so far, and how many trials the workload has had. 0 seconds:
  // nothing valid yet but the default, so that a few rounds follow before those of others.
  void report(int task, double best_seconds, int64_t trials);
  void exhaust(int task);  // no more candidates
  // Whether the workload was ended by end_below().
  bool has_settled(int task) const { return tasks_[static_cast<size_t>(task)].settled; }

 private:
  struct State {
    double uses;  // 0: relative gain
    // After each round: the best seconds and the number of trials so far.
    std::vector<double> best = {};
    std::vector<int64_t> trials = {};
    bool exhausted = false, settled = false;
    double expected = 0;  // seconds of the model before the first round; 0: not known
    bool waits() const { return best.empty() && !exhausted; }
  };
  int next_waiting() const;
  double gain(const State& s) const;
  bool gains_too_little(const State& s) const;

  std::vector<State> tasks_;
  double least_gain_ = 0;
};

}  // namespace tilewright
