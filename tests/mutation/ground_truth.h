// Decides whether a mutant computes the same as its original kernel: on all elements, many inputs,
// sizes, orders of threads and calls. It shares no code with the check of candidates.
#pragma once

#include <cstdint>
#include <string>

#include "ir/tensor_expr.h"
#include "kernel/kernel_source.h"

namespace tilewright::mutation {

struct Truth {
  bool equal = true;
  // The results differ in some bits, but only within what the order of summation may change.
  bool within_rounding = false;
  std::string difference;  // the first one: the fault, or the element, inputs and sizes
};

// Runs both objects, which `description` describes, in a child process.
Truth compare_kernels(const Workload& workload, const KernelDescription& description,
                      const std::string& kernel, const std::string& mutant, uint64_t seed);

}  // namespace tilewright::mutation
