// A workload by its oracle, which needs no kernel: what gives nodes their meaning, and what serves them where a
// kernel does not, since a size is 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/oracle/evaluate.h"
#include "ir/tensor_expr.h"

namespace tilewright::graph {

struct ComputeOperand {
  ElemType elem = ElemType::f32;
  const char* data = nullptr;
};

// Computes the output in f64, and rounds it to its type. `dims` are the workload's dynamic dimensions, each of
// which may also be 0: sums over nothing are 0, maxima the least number.
void compute(Workload workload, const std::map<std::string, int64_t>& dims,
             const std::map<std::string, ComputeOperand>& operands, char* output,
             const Oracle::ParallelFn& parallel = {});
// The same, element by element: for few elements, and without the oracle's vectors, which have code that the loader
// chooses by the processor.
void compute_each(Workload workload, const std::map<std::string, int64_t>& dims,
                  const std::map<std::string, ComputeOperand>& operands, char* output);

}  // namespace tilewright::graph
