#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/source.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

const std::vector<std::string>& binary_functions() {
  static const std::vector<std::string> kNames = {"add", "sub", "mul", "div", "max", "min"};
  return kNames;
}

Expr apply_binary(const std::string& fn, const Expr& x, const Expr& z) {
  if (fn == "add") return x + z;
  if (fn == "sub") return x - z;
  if (fn == "mul") return x * z;
  if (fn == "div") return x / z;
  return fn == "max" ? max(x, z) : min(x, z);
}

void normalize_elementwise(Spec& spec) {
  normalize_types(spec);
  const std::string& fn = spec.get<std::string>("fn");
  bool floats = is_float(*parse_elem_type(spec.get<std::string>("acc")));
  if (!floats && (needs_float(fn) || fn == "div")) {
    throw KeyError("fn", fmt::format("'{}' needs a float accumulator, not {}", fn,
                                     spec.get<std::string>("acc")));
  }
}

Workload build_elementwise(const Spec& spec) {
  WorkloadBuilder b(spec);
  const std::string& fn = spec.get<std::string>("fn");
  const auto& names = binary_functions();
  const bool binary = std::find(names.begin(), names.end(), fn) != names.end();
  std::vector<Axis> axes;
  for (const DimSize& size : spec.get<std::vector<DimSize>>("shape")) {
    size_t d = axes.size();
    axes.push_back({fmt::format("i{}", d), b.dim(fmt::format("d{}", d), size)});
  }
  Buffer X = b.input("X", b.dtype, extents_of(axes)), Z;
  if (binary) Z = b.input("Z", b.dtype, extents_of(axes));
  b.compute("Y", b.out, axes, [&](const Point& p) {
    Expr x = cast(b.acc, load(X, p));
    return binary ? apply_binary(fn, x, cast(b.acc, load(Z, p))) : apply_function(fn, x);
  });
  return b.finish();
}

}  // namespace

std::vector<Operator> elementwise_operators() {
  std::vector<std::string> fns = unary_functions();
  fns.insert(fns.end(), binary_functions().begin(), binary_functions().end());
  KeyDef shape{
      .name = "shape", .kind = KeyKind::Shape, .doc = "shape of every operand", .required = true};
  KeyDef fn{.name = "fn",
            .kind = KeyKind::Choice,
            .doc = "the function; gelu is the exact (erf) form",
            .required = true,
            .choices = fns};
  return {{"elementwise", "a function of each element, or of two tensors' elements",
           "X[shape]  Z[shape] (add, sub, mul, div, max, min)  ->  Y[shape]",
           "elementwise:shape=[512,3072],fn=gelu", join({{shape, fn}, type_keys()}),
           normalize_elementwise, build_elementwise}};
}

}  // namespace tilewright::ops
