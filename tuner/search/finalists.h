// Candidates that may win, kept until the end of a run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "database/store.h"
#include "kernel/target.h"
#include "tuner/measure/measurer.h"
#include "tuner/search/size_plan.h"

namespace tilewright {

struct Finalist {
  database::Record record;
  Measurement kernel;
};

// A stored kernel, to be measured again.
Finalist finalist_of(const database::Record& record, const database::Artifact& artifact,
                     const Target& target);

// What a run has to beat: the best of the database, if its kernel may run. An earlier time alone is
// no measure, since machines have faster and slower hours.
std::optional<Finalist> stored_best(const database::Store& store, const database::BestQuery& query,
                                    const Target& target);

// Keeps a kernel among those that may win, the fastest first: the `most` fastest, and up to three times as many
// that are nearly as fast as the first one.
void keep_finalist(std::vector<Finalist>& finalists, Finalist finalist, size_t most);

// Who may win: up to `most` of the finalists (the fastest first, one at least), the default and the best of the
// database, as long as they are not so slow that measuring them again could not change anything. Half of the finalists
// are the fastest ones. The others are nearly as fast and would win a tie, so that among many equal kernels two
// searches take the same ones. In the order of their trials.
std::vector<Finalist> rivals_of(const std::vector<Finalist>& finalists, size_t most,
                                const std::optional<Finalist>& untuned,
                                const std::optional<Finalist>& champion);

// Their kernels, in order.
std::vector<Measurement> kernels_of(const std::vector<Finalist>& finalists);

// The index of the champion's kernel among the rivals; -1: it is not one of them.
int champion_among(const std::vector<Finalist>& rivals, const std::optional<Finalist>& champion);

// The index of the winner of a race. Ties go to the champion, whose index is given (-1: none), so that the
// database's choice stays. Else they go to the smaller machine code, then to the config whose text comes first: an order
// that two searches share, whatever they measured. -1: all have failed.
int winner_of(const std::vector<Finalist>& rivals, const Comparison& comparison, int champion = -1);
// A record's reason with the claim how far the kernel may be behind, in the place of an earlier claim. Negative: there
// is none.
std::string with_claim(std::string reason, double behind);

// A kernel's times at the plan's tuned sizes, in the form that records keep. Leaves out the last
// and largest size, which has samples instead, and sizes at which the kernel was not timed.
std::vector<database::SizedTime> sized_times(const SizePlan& plan,
                                             const std::vector<double>& at_points);
// The inverse: the times of a record's kernel at the plan's tuned sizes. 0 at sizes where it was
// not timed; all 0 for a failure.
std::vector<double> times_at(const SizePlan& plan, const database::Record& record);

// For a workload with dynamic dimensions: the fastest kernels at each size where candidates are
// timed, by Measurement::at_points.
class PointFinalists {
 public:
  explicit PointFinalists(size_t points) : fastest_(points) {}

  // Whether a kernel with these times is among the fastest so far at one of the sizes.
  bool is_promising(const std::vector<double>& seconds) const;
  // Seconds of the fastest kernel so far at a size; 0: none was measured there.
  double best(size_t point) const;
  // The search's measure of progress: the geometric mean of best() over sizes with a measured
  // kernel. 0: there are no such sizes.
  double typical() const;
  void keep(const Finalist& finalist);
  // At most `most` kernels, each once: the given ones, then the fastest at each size, then the
  // second fastest at each, and so on.
  std::vector<Finalist> pick(const std::vector<Finalist>& first, size_t most = 16) const;
  // The sizes at which candidates are timed, except the last (largest) tuned one. The cutoff at
  // each is the fastest kernel's time.
  std::vector<SizePoint> beside_last(const SizePlan& plan) const;

 private:
  static constexpr size_t kEach = 4;  // kept per size

  std::vector<std::vector<Finalist>> fastest_;  // by size, fastest first
};

}  // namespace tilewright
