#include "schedule/primitives/weight/compress_pack.h"

#include <algorithm>
#include <functional>

#include "base/ceil_div.h"
#include "ir/tensor_expr.h"

namespace tilewright {
namespace {

using Point = std::vector<Expr>;

// A stage over a box with as many dimensions as the weight.
Stage make_stage(const std::string& name, ElemType elem, const std::vector<int64_t>& shape,
                 int64_t reduce, Reducer reducer,
                 const std::function<Expr(const Point& at, const Expr& r)>& value) {
  Stage stage;
  Point at;
  std::vector<Expr> extents;
  for (size_t d = 0; d < shape.size(); ++d) {
    stage.axes.emplace_back("p" + std::to_string(d));
    at.push_back(stage.axes.back());
    extents.emplace_back(shape[d]);
  }
  Expr r;
  if (reducer != Reducer::None) {
    stage.reduce_axes.push_back({Var("r"), reduce});
    r = stage.reduce_axes[0].var;
  }
  stage.output = make_buffer(name, elem, extents);
  stage.reducer = reducer;
  stage.value = cast(elem, value(at, r));
  return stage;
}

// The stages of a pack program, starting from the weight.
class PackStages {
 public:
  PackStages(Buffer weight, NmPattern pattern)
      : weight_(std::move(weight)), p_(std::move(pattern)), shape_(const_shape(weight_)),
        k_(std::max(shape_[p_.k_dim], p_.rows)),
        columns_(std::max(shape_[p_.column_dim], p_.columns)), groups_(ceil_div(k_, p_.of)),
        blocks_(ceil_div(columns_, p_.vector)) {}

  // 1 for a row in which any of the vector's neighbouring columns is nonzero (not at its zero
  // point).
  Stage kept() {
    Stage s = make_stage("kept", ElemType::i32, box(k_, blocks_), p_.vector, Reducer::Max,
                         [&](const Point& at, const Expr& c) {
                           Point from = at;
                           Expr column = at[p_.column_dim] * Expr(p_.vector) + c;
                           from[p_.column_dim] = column;
                           ElemType wide = is_float(weight_->elem) ? ElemType::f64 : ElemType::i32;
                           Expr value = cast(wide, load(weight_, from));
                           Expr any = select(ne(value, worth_nothing(wide, from)), one(), zero());
                           Expr there = inside(from, blocks_ * p_.vector);
                           return there.defined() ? select(there, any, zero()) : any;
                         });
    kept_ = s.output;
    return s;
  }

  // The number of nonzero rows of the group up to and including this one.
  Stage count() {
    Stage s = make_stage("count", ElemType::i32, box(k_, blocks_), p_.of, Reducer::Sum,
                         [&](const Point& at, const Expr& q) {
                           const Expr& k = at[p_.k_dim];
                           Point from = at;
                           from[p_.k_dim] = floordiv(k, Expr(p_.of)) * Expr(p_.of) + q;
                           return select(from[p_.k_dim] <= k, load(kept_, from), zero());
                         });
    count_ = s.output;
    return s;
  }

  // The row of each kept element: the number of rows that have no more kept ones up to them than
  // the element's slot. The last row of the group where the group has too few.
  Stage position() {
    Stage s = make_stage("position", ElemType::i32, box(groups_ * p_.keep, blocks_), p_.of,
                         Reducer::Sum, [&](const Point& at, const Expr& q) {
                           Point from = at;
                           from[p_.k_dim] = first_row(at) + q;
                           Expr before = taken(from, q) <= slot(at);
                           Expr in_group = from[p_.k_dim] < Expr(k_ - 1);
                           in_group = q < Expr(p_.of - 1) && in_group;
                           return select(in_group, select(before, one(), zero()), zero());
                         });
    position_ = s.output;
    return s;
  }

  Stage rows(const std::string& name, ElemType elem) {
    return make_stage(name, elem, box(groups_ * p_.keep, blocks_), 0, Reducer::None,
                      [&](const Point& at, const Expr&) { return load(position_, at); });
  }

  Stage values(const std::string& name) {
    return make_stage(name, weight_->elem, box(groups_ * p_.keep, columns_), 0, Reducer::None,
                      [&](const Point& at, const Expr&) {
                        Point block = at, from = at;
                        block[p_.column_dim] = floordiv(at[p_.column_dim], Expr(p_.vector));
                        Expr row = cast(ElemType::index, load(position_, block));
                        from[p_.k_dim] = first_row(at) + row;
                        Expr value = load(weight_, from);
                        if (k_ % p_.of != 0) {
                          Expr there = slot(at) < cast(ElemType::i32, Expr(k_) - first_row(at));
                          value = select(there, value, worth_nothing(weight_->elem, from));
                        }
                        Expr there = inside(from, columns_);
                        return there.defined() ? select(there, value, make_const(weight_->elem, 0))
                                               : value;
                      });
  }

  int64_t kept_rows() const { return groups_ * p_.keep; }

 private:
  // The stored value that contributes nothing at these indices: 0, or the zero point.
  Expr worth_nothing(ElemType elem, const Point& at) const {
    if (!p_.zero) return make_const(elem, 0);
    return cast(elem, load(p_.zero, p_.zero_index(at)));
  }
  // The condition that the weight has an element at `at`, among `columns` columns; undefined where
  // it always does.
  Expr inside(const Point& at, int64_t columns) const {
    Expr condition;
    for (int d : {p_.k_dim, p_.column_dim}) {
      const int64_t most = d == p_.k_dim ? k_ : columns;
      if (most <= shape_[d]) continue;
      Expr within = at[d] < Expr(shape_[d]);
      condition = condition.defined() ? condition && within : within;
    }
    return condition;
  }
  // The number of rows of the group that are kept up to row `q`: the nonzero ones, and the first
  // others until there are `keep`.
  Expr taken(const Point& at, const Expr& q) const {
    Point last = at;
    last[p_.k_dim] =
        min(floordiv(at[p_.k_dim], Expr(p_.of)) * Expr(p_.of) + Expr(p_.of - 1), Expr(k_ - 1));
    Expr worth = load(count_, at);
    Expr others = cast(ElemType::i32, q) + one() - worth;
    Expr room = max(make_int(ElemType::i32, p_.keep) - load(count_, last), zero());
    return worth + min(others, room);
  }
  static Expr one() { return make_int(ElemType::i32, 1); }
  static Expr zero() { return make_int(ElemType::i32, 0); }
  // The weight's shape with other extents along k and along the columns.
  std::vector<int64_t> box(int64_t k, int64_t columns) const {
    std::vector<int64_t> shape = shape_;
    shape[p_.k_dim] = k;
    shape[p_.column_dim] = columns;
    return shape;
  }
  Expr first_row(const Point& at) const {
    return floordiv(at[p_.k_dim], Expr(p_.keep)) * Expr(p_.of);
  }
  Expr slot(const Point& at) const {
    return cast(ElemType::i32, floormod(at[p_.k_dim], Expr(p_.keep)));
  }

  Buffer weight_;
  NmPattern p_;
  std::vector<int64_t> shape_;
  int64_t k_, columns_, groups_, blocks_;
  Buffer kept_, count_, position_;
};

Program pack_program(const Buffer& weight, const Buffer& zero, std::vector<Stage> stages) {
  Workload work;
  work.op = "pack_" + weight->name;
  work.inputs = {{weight, ParamRole::Weight}};
  if (zero) work.inputs.push_back({zero, ParamRole::Weight});
  work.stages = std::move(stages);
  return lower(work);
}

// Rows that every vector of columns has take a byte each, so that reading one is a plain load.
// Others take as few bits as a row number of the group needs.
ElemType row_type(const NmPattern& p) {
  if (p.vector >= 8 || p.of > 16) return ElemType::u8;
  return p.of <= 2 ? ElemType::u1 : p.of <= 4 ? ElemType::u2 : ElemType::u4;
}

}  // namespace

Compressed compress_weight(const Buffer& weight, const NmPattern& pattern,
                           const std::string& values_name, const std::string& rows_name) {
  Compressed result;
  PackStages stages(weight, pattern);
  std::vector<Stage> common = {stages.kept(), stages.count(), stages.position()};
  std::vector<Stage> values = common, rows = common;
  values.push_back(stages.values(values_name));
  rows.push_back(stages.rows(rows_name, row_type(pattern)));
  result.values = values.back().output;
  result.rows = rows.back().output;
  result.pack_values = pack_program(weight, pattern.zero, std::move(values));
  result.pack_rows = pack_program(weight, pattern.zero, std::move(rows));
  return result;
}

}  // namespace tilewright
