// Whether a mutant computes what the kernel computes that it was made of: on all elements, many
// inputs, sizes, orders of threads, and calls. Shares no code with the check that candidates pass.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/kernel_source.h"
#include "ir/tensor_expr.h"

namespace tilewright::mutation {

struct Truth {
  bool equal = true;
  // Results of both differ in bits somewhere, within what the order of sums may change.
  bool within_rounding = false;
  std::string difference;  // the first one: the fault, or element, inputs and sizes
};

// Runs both objects, which the description describes, in a process of its own.
Truth compare_kernels(const Workload& workload, const KernelDescription& description,
                      const std::string& kernel, const std::string& mutant, uint64_t seed);

}  // namespace tilewright::mutation
