// Evaluates single elements of a workload in f64: the oracle that every candidate is held to.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/interpreter.h"
#include "ir/tensor_expr.h"

namespace tilewright {

// Reads one element of an input. Called with the flat row-major index.
using ElementReader = std::function<double(int64_t)>;

// Evaluates elements of the stages on demand, from the tensor expression alone (no schedule, no
// loop nest), in f64 with no rounding in between, except that a Cast to an integer or a narrower
// stored type rounds as the expression says. Elements of intermediate stages are remembered.
class Oracle {
 public:
  // `inputs` by buffer name. The workload must outlive the oracle.
  Oracle(const Workload& workload, std::map<std::string, ElementReader> inputs,
         std::map<std::string, int64_t> dims = {});
  ~Oracle();

  struct Value {
    double value;
    // Sum of the magnitudes that were added up to reach `value`: a kernel that adds in another
    // order may differ by about `terms * eps(acc) * magnitude`.
    double magnitude;
    int64_t terms;
  };
  // The output element at the flat row-major index.
  Value at(int64_t flat_index);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilewright
