// The oracle for whole outputs: stage by stage, sums of products in vectors along an output axis.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ir/evaluate.h"
#include "ir/oracle_evaluator.h"

namespace tilewright::oracle {

// A factor of a sum of products: elements of an input or a stage whose place moves evenly with the
// lane axis and the inner reduce axis, or a value that other axes of the output have no part in, so
// that a table of it is made once.
struct Factor {
  int source = -1;
  bool is_stage = false;
  int index = -1;   // of its first element
  int tabled = -1;  // the value; else -1
  int64_t lane_step = 0, inner_step = 0;
};

// How a stage is a sum of products along `lane`. Terms where a mask is false are zero; masks depend
// on neither `lane` nor `inner`.
struct ProductPlan {
  int lane = -1, inner = -1;  // slots
  std::vector<Factor> factors = {};
  std::vector<int> masks = {};
};

// The values of a tabled factor, by reduce axes and then lanes: the fields of Approx, of which all but
// the first are empty where they are zero.
struct FactorTable {
  std::vector<double> v, e, apart;
};

// The plan of the widest vectors, or nothing where the stage has another form.
std::optional<ProductPlan> plan_product(const Evaluator& evaluator, const StageCode& stage);

class Whole {
 public:
  Whole(const Workload& workload, const std::map<std::string, int64_t>& dims,
        const std::vector<ElementReader>& readers, std::vector<BlockReader> blocks,
        NarrowSums narrow);

  // See Oracle::for_all() and Oracle::whole_cost(). Called once.
  void run(const Oracle::TakeFn& take, const Oracle::ParallelFn& parallel);
  Oracle::WholeCost cost() const;

 private:
  // Where results go: elements of a stage that others read, or the output.
  using PutFn = std::function<void(int64_t first, std::span<const Approx> values)>;

  // The axis of the output along which run_lanes() goes; -1: none is long enough.
  int lane_of(int stage) const;
  void decode_inputs(const ProductPlan& plan, const Oracle::ParallelFn& parallel);
  FactorTable tabulate(const StageCode& s, const ProductPlan& plan, int value,
                       const Oracle::ParallelFn& parallel);
  void run_lanes(int stage, int lane, const PutFn& put, const Oracle::ParallelFn& parallel);
  void run_elements(int stage, const PutFn& put, const Oracle::ParallelFn& parallel);
  void run_product(int stage, const ProductPlan& plan, const PutFn& put,
                   const Oracle::ParallelFn& parallel);

  Evaluator evaluator_;
  std::vector<BlockReader> blocks_;                  // by input; may be empty
  std::vector<std::optional<ProductPlan>> plans_;    // by stage
  std::vector<std::vector<double>> decoded_inputs_;  // those that products read, by input
};

}  // namespace tilewright::oracle
