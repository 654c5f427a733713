// The oracle for whole outputs: stage by stage, sums of products in vectors along an output axis.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ir/oracle/evaluate.h"
#include "ir/oracle/oracle_evaluator.h"
#include "ir/oracle/oracle_plan.h"
#include "ir/oracle/oracle_product_run.h"

namespace tilewright::oracle {

// Where results go: elements of a stage that others read, or the output.
using PutFn = std::function<void(int64_t first, std::span<const Approx> values)>;

class Whole {
 public:
  Whole(const Workload& workload, const std::map<std::string, int64_t>& dims,
        const std::vector<ElementReader>& readers, std::vector<BlockReader> blocks,
        NarrowSums narrow);

  Oracle::WholeCost cost() const;
  // See Oracle::sums_cost().
  std::optional<Oracle::WholeCost> sums_cost(int64_t width) const;
  // See Oracle::for_all() and Oracle::sums(). One of them is called, once.
  void run(const Oracle::TakeFn& take, const Oracle::ParallelFn& parallel);
  Oracle::Sums run_sums(int64_t width, uint64_t seed, const Oracle::ParallelFn& parallel);

 private:
  // Adds up what stages need; inputs are decoded once.
  class Spending;
  // A product whose output is the workload's, as it is or rounded to another float type, and the
  // number of its factor that depends on the lane axis. The other factor is an input.
  struct SumsPlan {
    int stage;
    size_t folded;
  };

  // The axis of the output along which run_lanes() goes; -1: none is long enough.
  int lane_of(int stage) const;
  void decode_input(const Factor& f, const Oracle::ParallelFn& parallel);
  // Whether the value has no error, whatever is read.
  static bool is_exact_value(const StageCode& s, int value);
  // Whether the sums of the plan are of floats, with a factor that has no error beside the one of this
  // number.
  bool has_exact_partner(const StageCode& s, const ProductPlan& plan, size_t factor) const;
  FactorTable tabulate(const StageCode& s, const ProductPlan& plan, size_t factor,
                       const Oracle::ParallelFn& parallel);
  void keep_stage(int stage, const Oracle::ParallelFn& parallel);
  void run_stage(int stage, const PutFn& put, const Oracle::ParallelFn& parallel);
  void run_lanes(int stage, int lane, const PutFn& put, const Oracle::ParallelFn& parallel);
  void run_elements(int stage, const PutFn& put, const Oracle::ParallelFn& parallel);
  void run_product(int stage, const ProductPlan& plan, const PutFn& put,
                   const Oracle::ParallelFn& parallel);
  int product_of_output() const;
  std::optional<SumsPlan> sums_plan() const;
  FactorTable fold(const SumsPlan& plan, Oracle::Sums& sums, const Oracle::ParallelFn& parallel);

  Evaluator evaluator_;
  std::vector<std::optional<ProductPlan>> plans_;    // by stage
  std::vector<std::vector<double>> decoded_inputs_;  // those that products read, by input
};

}  // namespace tilewright::oracle
