// The roofline: the least time that a workload can take on this machine.
#pragma once

#include <string>

#include "codegen/target.h"
#include "ir/tensor_expr.h"
#include "runtime/machine.h"

namespace tilewright {

struct Roofline {
  double seconds;        // the larger of compute and memory time
  double bytes;          // operands, read and written once
  std::string bound_by;  // "compute", "L2", "L3" or "memory"
};

// From this machine's measured peak and bandwidths. Operands come from the cache that holds them,
// as in repeated runs.
Roofline roofline_of(const Workload& workload, int threads);

// For this machine, or for a CUDA target's GPU by its data sheet; there, `bound_by` is "compute" or
// "memory".
Roofline roofline_of(const Workload& workload, const Target& target, int threads);

// The share of the roofline that a measured run reaches.
struct RooflineShare {
  double fraction = 0;
  std::string cause = {};  // of a fraction over 1: how that can be; else empty
};
// A CPU's peaks are measured again, once a process, when the run exceeds them by more than 5%.
RooflineShare roofline_share(const Workload& workload, const Target& target, int threads,
                             double seconds);

// This machine's measured rates on that many threads.
MachineRates machine_rates(int threads);

}  // namespace tilewright
