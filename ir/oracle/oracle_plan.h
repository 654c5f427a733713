// Stages that are sums of products, taken apart into factors that are read in vectors.
#pragma once

#include <optional>
#include <vector>

#include "ir/oracle/oracle_evaluator.h"

namespace tilewright::oracle {

// A factor of a sum of products: elements of an input or a stage whose place moves evenly with the
// lane axis and the inner reduce axis, or a value that other axes of the output have no part in, so
// that a table of it is made once.
struct Factor {
  int value = -1;  // its number in the stage's code
  bool tabled = false;
  // Of one that is not tabled: what is read, the index of its first element, and the steps.
  int source = -1;
  bool is_stage = false;
  int index = -1;
  int64_t lane_step = 0, inner_step = 0;
};

// How a stage is a sum of products along `lane`. Terms where a mask is false are zero; masks depend
// on neither `lane` nor `inner`.
struct ProductPlan {
  int lane = -1, inner = -1;  // slots
  std::vector<Factor> factors = {};
  std::vector<int> masks = {};
};

// The plan of the widest vectors, or nothing where the stage has another form.
std::optional<ProductPlan> plan_product(const Evaluator& evaluator, const StageCode& stage);

// Shorter axes are left to single elements.
constexpr int64_t kLeastLanes = 8;

}  // namespace tilewright::oracle
