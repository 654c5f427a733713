// Candidates that may win, kept until the end of a run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "database/store.h"
#include "tuner/measurer.h"
#include "tuner/size_plan.h"

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

// Who may win: the finalists (the fastest first, one at least), the default and the best of the
// database, as long as they are not so slow that measuring them again could not change anything. In
// the order of their trials.
std::vector<Finalist> rivals_of(const std::vector<Finalist>& finalists,
                                const std::optional<Finalist>& untuned,
                                const std::optional<Finalist>& champion);

// A kernel's times at the tuned sizes of a plan, which end with the largest, as records keep them:
// without the largest, which have samples, and where it was not timed.
std::vector<database::SizedTime> sized_times(const SizePlan& plan,
                                             const std::vector<double>& at_points);
// The other way: 0 at sizes where the record's kernel was not timed; all 0 for a failure.
std::vector<double> times_at(const SizePlan& plan, const database::Record& record);

// Of a workload with dynamic dimensions: the fastest kernels at each of the sizes where candidates
// are timed, with what Measurement::at_points says.
class PointFinalists {
 public:
  explicit PointFinalists(size_t points) : fastest_(points) {}

  // Whether a kernel of these times is among the fastest so far at one of the sizes.
  bool is_promising(const std::vector<double>& seconds) const;
  // Seconds of the fastest kernel at a size so far; 0: none was measured there.
  double best(size_t point) const;
  // What of a workload's time progress is judged by: the geometric mean of best() over the sizes at
  // which a kernel was measured; 0: at none.
  double typical() const;
  void keep(const Finalist& finalist);
  // `most` at most, each kernel once: those given, then the fastest of each size, the second of
  // each, and so on.
  std::vector<Finalist> pick(const std::vector<Finalist>& first, size_t most = 16) const;
  // Where candidates are timed besides the largest of the plan's tuned sizes, with the fastest's
  // times as what the cut-offs go by.
  std::vector<SizePoint> beside_last(const SizePlan& plan) const;

 private:
  static constexpr size_t kEach = 4;  // kept for a size

  std::vector<std::vector<Finalist>> fastest_;  // by size, the fastest first
};

}  // namespace tilewright
