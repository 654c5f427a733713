#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

// Axes count from 0, or back from -1. The result is sorted and counts from 0.
void normalize_reduction(Spec& spec) {
  normalize_types(spec);
  auto axes = spec.get<std::vector<int64_t>>("axes");
  const int64_t rank = static_cast<int64_t>(spec.get<std::vector<DimSize>>("shape").size());
  if (axes.empty()) throw KeyError("axes", "expected at least one axis");
  for (int64_t& axis : axes) {
    if (axis >= rank || axis < -rank) {
      throw KeyError("axes",
                     fmt::format("axis {} is outside a shape of {} dimensions", axis, rank));
    }
    if (axis < 0) axis += rank;
  }
  std::sort(axes.begin(), axes.end());
  auto twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end()) throw KeyError("axes", fmt::format("axis {} is given twice", *twice));
  spec.params["axes"] = axes;
  bool floats = is_float(*parse_elem_type(spec.get<std::string>("acc")));
  if (spec.get<std::string>("kind") == "mean" && !floats) {
    throw KeyError("kind", fmt::format("a mean needs a float accumulator, not {}",
                                       spec.get<std::string>("acc")));
  }
}

Workload build_reduction(const Spec& spec) {
  WorkloadBuilder b(spec);
  const std::string& kind = spec.get<std::string>("kind");
  const auto& reduced = spec.get<std::vector<int64_t>>("axes");
  std::vector<Axis> all, kept, over;
  for (const DimSize& size : spec.get<std::vector<DimSize>>("shape")) {
    int64_t d = static_cast<int64_t>(all.size());
    bool is_reduced = std::count(reduced.begin(), reduced.end(), d) > 0;
    all.push_back(
        {fmt::format("{}{}", is_reduced ? "r" : "i", d), b.dim(fmt::format("d{}", d), size)});
    (is_reduced ? over : kept).push_back(all.back());
  }
  const bool scalar = kept.empty();
  if (scalar) kept.push_back({"i", 1});
  Buffer X = b.input("X", b.dtype, extents_of(all));
  Reducer reducer = kind == "max" ? Reducer::Max : kind == "min" ? Reducer::Min : Reducer::Sum;
  const bool single = kind != "mean" && b.acc == b.out;
  Buffer result = b.reduce(single ? "Y" : "Y_acc", b.acc, kept, over, reducer,
                           [&](const Point& p, const Point& r) {
                             std::vector<Expr> index;
                             size_t next_kept = 0, next_over = 0;
                             for (size_t d = 0; d < all.size(); ++d) {
                               bool is_reduced = all[d].name[0] == 'r';
                               index.push_back(is_reduced ? r[next_over++] : p[next_kept++]);
                             }
                             return cast(b.acc, load(X, index));
                           });
  if (single) return b.finish();
  b.compute("Y", b.out, kept, [&](const Point& p) {
    Expr value = load(result, p);
    if (kind != "mean") return value;
    double count = 1;
    Expr dynamic;
    for (const Axis& a : over) {
      if (auto n = as_int(a.extent)) {
        count *= static_cast<double>(*n);
      } else {
        dynamic = dynamic.defined() ? dynamic * cast(b.acc, a.extent) : cast(b.acc, a.extent);
      }
    }
    Expr n = make_const(b.acc, count);
    return value / (dynamic.defined() ? dynamic * n : n);
  });
  return b.finish();
}

}  // namespace

std::vector<Operator> reduction_operators() {
  KeyDef shape{.name = "shape", .kind = KeyKind::Shape, .doc = "shape of X", .required = true};
  KeyDef axes{.name = "axes",
              .kind = KeyKind::Ints,
              .doc = "axes to reduce; negative ones count from the last",
              .required = true,
              .min = -8,
              .max = 7};
  KeyDef kind{.name = "kind",
              .kind = KeyKind::Choice,
              .doc = "reduction: sum, max, min or mean",
              .required = true,
              .choices = {"sum", "max", "min", "mean"}};
  return {{"reduce", "sum, maximum, minimum or mean over axes",
           "X[shape]  ->  Y[the other axes], Y[1] over all axes",
           "reduce:shape=[512,1024],axes=[1],kind=sum", join({{shape, axes, kind}, type_keys()}),
           normalize_reduction, build_reduction}};
}

}  // namespace tilewright::ops
