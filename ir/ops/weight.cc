#include "ir/ops/weight.h"

#include <fmt/core.h>

#include <algorithm>

#include "ir/buffer.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"

namespace tilewright::ops {
namespace {}  // namespace

WeightOperand::WeightOperand(WorkloadBuilder& b, const std::string& name,
                             std::vector<WeightAxis> axes)
    : name_(name), axes_(std::move(axes)), acc_(b.acc) {
  const Spec& spec = b.spec();
  const bool stored_low = spec.has("w.dtype");
  if (has_weight_format(spec)) describe(b);
  std::vector<Expr> shape;
  for (const WeightAxis& a : axes_) shape.push_back(a.extent);
  ElemType elem = stored_low ? elem_under(spec, "w.dtype") : b.dtype;
  stored_ = b.input(name, elem, std::move(shape), ParamRole::Weight);
  if (!stored_low) return;
  if (spec.has("w.values")) rounded_ = elem_under(spec, "w.values");
  declare_scales(b);
  std::vector<Axis> points;
  for (const WeightAxis& a : axes_) points.push_back({a.name, a.extent});
  value_ =
      b.compute(name + "_value", acc_, points, [this](const Point& p) { return dequantized(p); });
}

// Fills in `format_` except for the names of scales, zero points and offsets.
void WeightOperand::describe(WorkloadBuilder& b) {
  const Spec& spec = b.spec();
  format_.weight = name_;
  for (size_t d = 0; d < axes_.size(); ++d) {
    auto extent = as_int(axes_[d].extent);
    if (!extent) {
      throw KeyError(spec.has("w.dtype") ? "w.dtype" : "w.sparse",
                     fmt::format("a weight in a form of its own has constant sizes; the {} of {} "
                                 "is a range",
                                 axes_[d].kind == WeightAxis::Summed ? "k" : axes_[d].name, name_));
    }
    int dim = static_cast<int>(d);
    switch (axes_[d].kind) {
      case WeightAxis::Summed:
        k_ *= *extent;
        format_.k_dims.push_back(dim);
        break;
      case WeightAxis::Column: format_.column_dim = dim; break;
      case WeightAxis::Own: format_.own_dims.push_back(dim); break;
    }
  }
  const std::string& sparse = spec.get<std::string>("w.sparse");
  if (sparse != "none") {
    size_t colon = sparse.find(':');
    format_.keep = std::stoll(sparse.substr(0, colon));
    format_.of = std::stoll(sparse.substr(colon + 1));
    format_.vector = b.count("w.vector");
  }
  b.set_weight(format_);
}

void WeightOperand::declare_scales(WorkloadBuilder& b) {
  const Spec& spec = b.spec();
  const bool scaled = spec.get<std::string>("w.scale") != "none";
  const bool shifted = spec.get<std::string>("w.zero") != "none";
  if (!scaled && !shifted) return;
  const int64_t asked = b.count("w.group");
  format_.group = asked < 0 ? k_ : std::min(asked, k_);
  std::vector<Expr> shape;
  for (int d : format_.own_dims) shape.push_back(axes_[d].extent);
  shape.emplace_back((k_ + format_.group - 1) / format_.group);
  shape.push_back(axes_[format_.column_dim].extent);
  if (scaled) {
    format_.scale = name_ + ".scale";
    scale_ = b.input(format_.scale, elem_under(spec, "w.scale"), shape, ParamRole::Weight);
  }
  if (shifted) {
    format_.zero = name_ + ".zero";
    zero_ = b.input(format_.zero, elem_under(spec, "w.zero"), shape, ParamRole::Weight);
  }
  if (spec.has("w.offset")) {
    format_.offset = name_ + ".offset";
    offset_ = b.input(format_.offset, elem_under(spec, "w.offset"), shape, ParamRole::Weight);
  }
  b.set_weight(format_);
}

Expr WeightOperand::value(const Point& at) const {
  return value_ ? load(value_, at) : cast(acc_, load(stored_, at));
}

// (q - zero) * scale + offset. Integers are exact; in floats the difference of codes is exact too.
Expr WeightOperand::dequantized(const Point& at) const {
  Expr value = load(stored_, at);
  if (rounded_) value = cast(*rounded_, value);
  value = cast(acc_, value);
  if (zero_) value = value - cast(acc_, load(zero_, scale_index(at)));
  if (scale_) value = value * cast(acc_, load(scale_, scale_index(at)));
  if (offset_) value = value + cast(acc_, load(offset_, scale_index(at)));
  return value;
}

Point WeightOperand::scale_index(const Point& at) const {
  Point index;
  for (int d : format_.own_dims) index.push_back(at[d]);
  Expr k = Expr(0);
  for (int d : format_.k_dims) k = plus(times(k, *as_int(axes_[d].extent)), at[d]);
  index.push_back(format_.group >= k_ ? Expr(0) : quotient(k, format_.group));
  index.push_back(at[format_.column_dim]);
  return index;
}

}  // namespace tilewright::ops
