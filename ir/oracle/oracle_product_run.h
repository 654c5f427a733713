// Carries out a sum of products over a whole stage.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "ir/oracle/oracle_plan.h"
#include "ir/oracle/oracle_products.h"
#include "ir/oracle/oracle_shape.h"

namespace tilewright::oracle {

// The values of a factor by reduce axes and then lanes: the fields of Approx, of which all but the
// first are empty where they are zero.
struct FactorTable {
  std::vector<double> v, e, apart;
  // `e` has the errors of all that is made of the factor: those of the products with another factor,
  // which is exact, and of their sum. By it, one sum gives what three give otherwise.
  bool whole = false;
};

// The fields of a table that are not left out.
enum class TableFields { Values, WholeErrors, All };

// Makes a table of `lanes` lanes with these fields. `fill` writes the lanes of
// one term, which begin at term * lanes of each field; `slots` are the stage's, with the reduce axes at
// that term and all else at 0.
FactorTable make_table(
    const StageCode& stage, int64_t lanes, TableFields fields, const Oracle::ParallelFn& parallel,
    const std::function<void(int64_t term, Evaluator::Slots& slots, FactorTable& table)>& fill);

// The relative error that the roundings of a stage's sums make of their magnitude, and of what they
// have apart (Approx::apart).
struct SumRoundings {
  double sum, apart;
  explicit SumRoundings(const StageCode& stage);

  // The error in a sum that a term of this value makes, by the term's own error and what it has apart.
  double of_term(double value, double error, double term_apart) const {
    return error + sum * std::abs(value) + apart * term_apart;
  }
};

// Below this, f64 sums of integers have all of their digits.
constexpr double kExactIntegers = 0x1p53;

// Runs the iterations one after another where there is no such function.
Oracle::ParallelFn or_in_turn(const Oracle::ParallelFn& parallel);

// Copies of the parts of operands that one row after another reads, with the lanes of neighbouring
// terms side by side: rows of an array that lie a large power of two apart share few places of a cache, and
// lanes that lie apart are no vector.
class Panels {
 public:
  explicit Panels(int64_t steps) : panels_(2 * static_cast<size_t>(steps)) {}

  // The operand at this step, from a copy where the row before read the same, or where its lanes lie apart.
  ProductOperand near(int64_t step, size_t factor, const ProductOperand& operand, int64_t width,
                      int64_t inner);

 private:
  struct Panel {
    const double* source = nullptr;  // that the row before read
    std::vector<double> v, e, apart;
  };
  std::vector<Panel> panels_;
};

// The sums of a stage by a plan, row by row.
class ProductRun {
 public:
  // `tables` stand for factors, by their number; where one is empty the elements of the factor are
  // read, those of inputs in `inputs`. `lanes`: of the tables; the extent of the plan's lane axis,
  // unless no other factor depends on that axis. All must outlive it.
  ProductRun(Evaluator& evaluator, const StageCode& stage, const ProductPlan& plan,
             const std::vector<std::vector<double>>& inputs,
             const std::array<FactorTable, 2>& tables, int64_t lanes);

  // Sums of lanes [first_lane, first_lane + sums.value.size()) of a row (LaneAxis).
  using TakeFn = std::function<void(int64_t row, int64_t first_lane, const ProductSums& sums)>;
  void run(const TakeFn& take, const Oracle::ParallelFn& parallel) const;

 private:
  void sum_row(int64_t row, int64_t first_lane, Panels& panels, ProductSums& sums) const;
  bool is_masked(Evaluator::Slots& slots) const;
  ProductOperand operand(size_t factor, Evaluator::Slots& slots, int64_t first_lane,
                         int64_t width) const;
  ProductOperand in_table(const FactorTable& table, const Evaluator::Slots& slots,
                          int64_t first_lane) const;
  ProductOperand in_array(const Factor& f, Evaluator::Slots& slots, int64_t width) const;

  Evaluator& evaluator_;
  const StageCode& s_;
  const ProductPlan& plan_;
  const std::vector<std::vector<double>>& inputs_;
  const std::array<FactorTable, 2>& tables_;
  int64_t lanes_, rows_;
  int64_t inner_;             // terms along the inner reduce axis
  int64_t steps_;             // how often that axis is gone along
  int64_t table_inner_step_;  // between neighbours along it
};

}  // namespace tilewright::oracle
