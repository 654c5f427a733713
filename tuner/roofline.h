// The least time that a workload can take on this machine.
#pragma once

#include <string>

#include "codegen/target.h"
#include "ir/tensor_expr.h"
#include "runtime/machine.h"

namespace tilewright {

struct Roofline {
  double seconds;        // the larger of compute and memory time
  double bytes;          // operands read and written once
  std::string bound_by;  // "compute", "L2", "L3" or "memory"
};

// From the peak and the bandwidths that were measured on this machine; operands come from the cache
// that holds them, as they do in repeated runs.
Roofline roofline_of(const Workload& workload, int threads);

// On this machine, or on the GPU of a CUDA target by its data sheet: `bound_by` is then "compute" or
// "memory".
Roofline roofline_of(const Workload& workload, const Target& target, int threads);

// How much of the roofline a measured run is.
struct RooflineShare {
  double fraction = 0;
  std::string cause = {};  // of a fraction over 1: how that can be; else empty
};
// A CPU's peaks are measured again, once a process, when the run exceeds them by more than 5%.
RooflineShare roofline_share(const Workload& workload, const Target& target, int threads,
                             double seconds);

// What was measured of this machine, on that many threads.
MachineRates machine_rates(int threads);

}  // namespace tilewright
