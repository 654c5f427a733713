// A measurer whose candidates are tried by the workers of a crew.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tuner/fleet/crew.h"
#include "tuner/measure/measurer.h"

namespace tilewright {

struct JobContext;

// Checks and times happen on the machine that measures. Kernels that may win come here as objects;
// their descriptions are made here, and not taken from a worker. spent() adds up all workers.
//
// A time faster than the peaks of the other workers allow is measured again by another worker. The
// slower of the two counts; one that is far from it was forged, and its worker is refused.
class FleetMeasurer : public Measurer {
 public:
  // The crew must outlive it. `target` is that of its machines.
  FleetMeasurer(Crew& crew, Target target, MeasureOptions options);
  ~FleetMeasurer() override;

  std::vector<Measurement> measure(const Workload& workload, const std::vector<Candidate>& batch,
                                   const MeasureLimits& limits, double best_seconds,
                                   const MeasuredFn& measured = {},
                                   const std::vector<SizePoint>& points = {}) override;
  // In turns on one of the machines, while the other workers wait.
  Comparison compare(const Workload& workload, const std::vector<Measurement>& kernels,
                     const MeasureLimits& limits) override;
  std::optional<SizeComparison> compare_at(const Workload& workload,
                                           const std::vector<Measurement>& kernels,
                                           const SizeList& sizes, int rounds,
                                           const MeasureLimits& limits) override;
  const SecondsSpent& spent() const override { return spent_; }
  // The least time that the workload can take by the peaks of all workers but one (-1: of all): the
  // median of what they say. 0 where nothing is known.
  double roof_seconds(const Workload& workload, int without = -1) const;

 private:
  class Trials;
  class Turns;
  JobContext context(const Workload& workload, const MeasureLimits& limits) const;

  Crew& crew_;
  const Target target_;
  const MeasureOptions options_;
  SecondsSpent spent_;
};

}  // namespace tilewright
