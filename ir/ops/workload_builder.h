// Assembles workloads stage by stage.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/ops/operator.h"

namespace tilewright::ops {

// Index arithmetic that folds constants and drops neutral elements.
Expr plus(const Expr& a, const Expr& b);
Expr minus(const Expr& a, const Expr& b);
Expr times(const Expr& a, int64_t b);
Expr quotient(const Expr& a, int64_t b);
// Conjunction; an undefined side is ignored.
Expr both(const Expr& a, const Expr& b);

struct Axis {
  std::string name;
  Expr extent;
};

using Point = std::vector<Expr>;
using PointFn = std::function<Expr(const Point& axes)>;
using ReduceFn = std::function<Expr(const Point& axes, const Point& reduce_axes)>;

std::vector<Expr> extents_of(const std::vector<Axis>& axes);

class WorkloadBuilder {
 public:
  // Reads `dtype`, `acc` and `out` where the operator has them.
  explicit WorkloadBuilder(const Spec& spec);

  ElemType dtype = ElemType::f32, acc = ElemType::f32, out = ElemType::f32;

  // The size under `key`: a constant, or the variable of a dynamic dimension.
  Expr dim(const std::string& key) { return dim(key, spec_.get<DimSize>(key)); }
  Expr dim(const std::string& name, const DimSize& size);
  int64_t count(const std::string& key) const { return spec_.get<int64_t>(key); }
  bool flag(const std::string& key) const { return spec_.get<bool>(key); }

  // A Weight with a dynamic shape becomes an Input, since it cannot be laid out once.
  Buffer input(const std::string& name, ElemType elem, std::vector<Expr> shape,
               ParamRole role = ParamRole::Input);
  // Adds a stage that computes each element by itself, or that reduces over further axes.
  Buffer compute(const std::string& name, ElemType elem, const std::vector<Axis>& axes,
                 const PointFn& value);
  Buffer reduce(const std::string& name, ElemType elem, const std::vector<Axis>& axes,
                const std::vector<Axis>& reduce_axes, Reducer reducer, const ReduceFn& value);

  // Adds the last stage (or two): the accumulator of type `acc`, times `scale` where given, then the
  // spec's epilogue and the cast to `out`. `channel` is the axis that the bias follows.
  void accumulate(const std::string& name, const std::vector<Axis>& axes,
                  const std::vector<Axis>& reduce_axes, const ReduceFn& value, int channel,
                  const PointFn& scale = {});

  // Sets the format of the constant operand; with several operands, the first one's format stands
  // for all.
  void set_weight(WeightFormat format) {
    const bool is_further = workload_.weight && workload_.weight->weight != format.weight;
    if (!is_further) workload_.weight = std::move(format);
  }
  // Sets the share of the stage's operations that counts. It is 0 where the stage brings an operand
  // into another form, and less than 1 where some elements are known to be masked.
  void set_work(const std::string& stage, double share) { work_[stage] = share; }

  const Spec& spec() const { return spec_; }
  // Counts operations and checks sizes; throws KeyError for what is too large.
  Workload finish();

 private:
  Expr apply_epilogue(const std::vector<std::string>& steps, Expr value, const Point& p,
                      const std::vector<Axis>& axes, int channel, const Buffer& bias,
                      const Buffer& added);

  const Spec& spec_;
  Workload workload_;
  std::map<std::string, double> work_;  // share per stage where not all operations count
};

// A float or integer function by name ("relu", "gelu", …), applied to one operand. gelu is the
// exact form x/2 (1 + erf(x/sqrt(2))).
Expr apply_function(const std::string& fn, const Expr& x);
// The names that apply_function() knows. needs_float(): true for those that integers cannot take.
const std::vector<std::string>& unary_functions();
bool needs_float(const std::string& fn);

// The number of additions, subtractions, multiplications, divisions, minima and maxima that the
// stages perform on values, each reduction step counting its combination. Index arithmetic, casts,
// comparisons, selections, negations and transcendental functions do not count. A selection counts
// its more expensive side. (TVM counts its test workloads by the same rules.)
//
// Dynamic dimensions count at their maximum. The stage that dequantizes a stored weight does not
// count. A stage in `shares` counts by its share.
double count_flops(const Workload& workload, const std::map<std::string, double>& shares);
// The value of an extent with every dynamic dimension at its maximum.
int64_t max_extent(const Expr& extent, const std::vector<DimVar>& dims);

}  // namespace tilewright::ops
