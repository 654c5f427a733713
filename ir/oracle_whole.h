// The oracle for whole outputs: stage by stage, sums of products in vectors along an output axis.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ir/evaluate.h"
#include "ir/oracle_evaluator.h"

namespace tilewright::oracle {

// A factor of a sum of products whose place moves evenly with the lane axis and the inner reduce
// axis.
struct Factor {
  int source = -1;
  bool is_stage = false;
  int index = -1;  // of its first element
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

class Whole {
 public:
  Whole(const Workload& workload, const std::map<std::string, int64_t>& dims,
        const std::vector<ElementReader>& readers, NarrowSums narrow);

  // See Oracle::for_all() and Oracle::whole_cost(). Called once.
  void run(const Oracle::TakeFn& take, const Oracle::ParallelFn& parallel);
  Oracle::WholeCost cost() const;

 private:
  // Where results go: elements of a stage that others read, or the output.
  using PutFn = std::function<void(int64_t first, std::span<const Approx> values)>;

  bool is_scalar(int stage) const;
  void decode_inputs(const ProductPlan& plan, const Oracle::ParallelFn& parallel);
  void run_elements(int stage, const PutFn& put, const Oracle::ParallelFn& parallel);
  void run_product(int stage, const ProductPlan& plan, const PutFn& put,
                   const Oracle::ParallelFn& parallel);

  Evaluator evaluator_;
  std::vector<std::optional<ProductPlan>> plans_;    // by stage
  std::vector<std::vector<double>> decoded_inputs_;  // those that products read, by input
};

}  // namespace tilewright::oracle
