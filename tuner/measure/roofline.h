// The roofline: the least time that a workload can take on this machine.
#pragma once

#include <string>

#include "ir/tensor_expr.h"
#include "kernel/target.h"

namespace tilewright {

struct Roofline {
  double seconds;        // the larger of compute and memory time
  double bytes;          // operands, read and written once
  std::string bound_by;  // "compute", "L2", "L3" or "memory"
};

// A workload as a roofline sees it.
struct RooflineWork {
  double flops;
  double bytes;      // operands, read and written once
  ElemType factors;  // the type in which most products are computed
};

RooflineWork roofline_work(const Workload& workload);

// For a CPU by this machine's measured peak and bandwidths, where operands come from the cache that
// holds them, as in repeated runs. For a GPU by its data sheet; there, `bound_by` is "compute" or
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

// How any run may be faster than the roofline.
inline constexpr const char* kLeavesOut =
    "the kernel leaves out operations that the workload's count has";

}  // namespace tilewright
