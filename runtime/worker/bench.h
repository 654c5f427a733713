// Checks and times CPU kernels in a worker process.
#pragma once

#include <memory>

#include "runtime/worker/jobs.h"

namespace tilewright {

// Serves "measure" jobs. What the candidates of one workload share (operands, right values) is made
// once and kept until a job of another workload, size or seed comes.
//
// A kernel is checked on two sets of operands, every element of its outputs where computing them is
// affordable: ordinary values in arrays that end at protected pages, before it is timed; hard values
// in arrays that begin after protected pages, at the addresses of the timed runs, afterwards. Inputs
// and packed weights are read-only pages while it runs.
class Bench {
 public:
  explicit Bench(WorkloadParser parse);
  ~Bench();

  MeasureResult measure(const MeasureJob& job);
  // Makes what measure() would make first for such a job, of which `object` is not looked at.
  void prepare(const MeasureJob& job);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
