#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

Expr number(ElemType type, double value) { return make_const(type, value); }

// Softmax of each row. The row's maximum is subtracted first, so that no exponential overflows; each row has
// one division.
Workload build_softmax(const Spec& spec) {
  WorkloadBuilder b(spec);
  Axis i{"i", b.dim("m")}, j{"j", b.dim("n")};
  Buffer X = b.input("X", b.dtype, {i.extent, j.extent});
  auto at = [&](const Expr& row, const Expr& column) {
    return cast(b.acc, load(X, {row, column}));
  };
  Buffer top = b.reduce("X_max", b.acc, {i}, {j}, Reducer::Max,
                        [&](const Point& p, const Point& r) { return at(p[0], r[0]); });
  Buffer e = b.compute("X_exp", b.acc, {i, j}, [&](const Point& p) {
    return unary(UnaryOp::Exp, at(p[0], p[1]) - load(top, {p[0]}));
  });
  Buffer sum =
      b.reduce("X_sum", b.acc, {i}, {j}, Reducer::Sum, [&](const Point& p, const Point& r) {
        return load(e, {p[0], r[0]});
      });
  Buffer scale = b.compute("X_scale", b.acc, {i},
                           [&](const Point& p) { return number(b.acc, 1) / load(sum, p); });
  b.compute("Y", b.out, {i, j}, [&](const Point& p) { return load(e, p) * load(scale, {p[0]}); });
  return b.finish();
}

// The scale (and shift) of an affine normalization, applied to `value` of column `j`.
struct Affine {
  Buffer gamma, beta;

  Expr apply(ElemType type, Expr value, const Expr& j) const {
    if (gamma) value = value * cast(type, load(gamma, {j}));
    if (beta) value = value + cast(type, load(beta, {j}));
    return value;
  }
};

Affine affine_inputs(WorkloadBuilder& b, const Expr& n, bool shifts) {
  Affine affine;
  if (!b.flag("affine")) return affine;
  affine.gamma = b.input("gamma", b.dtype, {n}, ParamRole::Weight);
  if (shifts) affine.beta = b.input("beta", b.dtype, {n}, ParamRole::Weight);
  return affine;
}

// Two passes: the mean, then the mean of squared distances from it. This avoids cancellation.
Workload build_layer_norm(const Spec& spec) {
  WorkloadBuilder b(spec);
  Axis i{"i", b.dim("m")}, j{"j", b.dim("n")};
  Buffer X = b.input("X", b.dtype, {i.extent, j.extent});
  Affine affine = affine_inputs(b, j.extent, true);
  Expr n = cast(b.acc, j.extent);
  if (auto count = as_int(j.extent)) n = number(b.acc, static_cast<double>(*count));
  auto at = [&](const Expr& row, const Expr& column) {
    return cast(b.acc, load(X, {row, column}));
  };
  Buffer sum = b.reduce("X_sum", b.acc, {i}, {j}, Reducer::Sum,
                        [&](const Point& p, const Point& r) { return at(p[0], r[0]); });
  Buffer mean = b.compute("X_mean", b.acc, {i}, [&](const Point& p) { return load(sum, p) / n; });
  Buffer squares =
      b.reduce("X_var", b.acc, {i}, {j}, Reducer::Sum, [&](const Point& p, const Point& r) {
        Expr d = at(p[0], r[0]) - load(mean, {p[0]});
        return d * d;
      });
  Buffer scale = b.compute("X_rstd", b.acc, {i}, [&](const Point& p) {
    return unary(UnaryOp::Rsqrt, load(squares, p) / n + number(b.acc, spec.get<double>("eps")));
  });
  b.compute("Y", b.out, {i, j}, [&](const Point& p) {
    Expr value = (at(p[0], p[1]) - load(mean, {p[0]})) * load(scale, {p[0]});
    return affine.apply(b.acc, value, p[1]);
  });
  return b.finish();
}

Workload build_rms_norm(const Spec& spec) {
  WorkloadBuilder b(spec);
  Axis i{"i", b.dim("m")}, j{"j", b.dim("n")};
  Buffer X = b.input("X", b.dtype, {i.extent, j.extent});
  Affine affine = affine_inputs(b, j.extent, false);
  Expr n = cast(b.acc, j.extent);
  if (auto count = as_int(j.extent)) n = number(b.acc, static_cast<double>(*count));
  auto at = [&](const Expr& row, const Expr& column) {
    return cast(b.acc, load(X, {row, column}));
  };
  Buffer squares =
      b.reduce("X_sq", b.acc, {i}, {j}, Reducer::Sum, [&](const Point& p, const Point& r) {
        Expr x = at(p[0], r[0]);
        return x * x;
      });
  Buffer scale = b.compute("X_rstd", b.acc, {i}, [&](const Point& p) {
    return unary(UnaryOp::Rsqrt, load(squares, p) / n + number(b.acc, spec.get<double>("eps")));
  });
  b.compute("Y", b.out, {i, j}, [&](const Point& p) {
    return affine.apply(b.acc, at(p[0], p[1]) * load(scale, {p[0]}), p[1]);
  });
  return b.finish();
}

// The Frobenius norm of each of `b` matrices.
Workload build_norm(const Spec& spec) {
  WorkloadBuilder b(spec);
  Axis batch{"b", b.dim("b")}, i{"i", b.dim("m")}, j{"j", b.dim("n")};
  Buffer X = b.input("X", b.dtype, {batch.extent, i.extent, j.extent});
  Buffer squares =
      b.reduce("X_sq", b.acc, {batch}, {i, j}, Reducer::Sum, [&](const Point& p, const Point& r) {
        Expr x = cast(b.acc, load(X, {p[0], r[0], r[1]}));
        return x * x;
      });
  b.compute("Y", b.out, {batch},
            [&](const Point& p) { return unary(UnaryOp::Sqrt, load(squares, p)); });
  return b.finish();
}

}  // namespace

std::vector<Operator> normalization_operators() {
  KeyDef eps{
      .name = "eps", .kind = KeyKind::Number, .doc = "added to the variance", .fallback = 1e-5};
  KeyDef affine = flag_key("affine", "multiply by gamma[n] (and add beta[n] in layer_norm)");
  std::vector<KeyDef> rows = {size_key("m", "rows"), size_key("n", "elements of a row")};
  std::vector<KeyDef> types = type_keys(true);
  return {
      {"softmax", "softmax of each row", "X[m,n]  ->  Y[m,n]", "softmax:m=256,n=256",
       join({rows, types}), normalize_types, build_softmax},
      {"layer_norm", "each row to mean 0 and variance 1",
       "X[m,n]  gamma[n], beta[n] (affine), constant  ->  Y[m,n]",
       "layer_norm:m=512,n=768,affine=true", join({rows, {eps, affine}, types}), normalize_types,
       build_layer_norm},
      {"rms_norm", "each row divided by its root mean square",
       "X[m,n]  gamma[n] (affine), constant  ->  Y[m,n]", "rms_norm:m=512,n=4096,eps=1e-6",
       join({rows, {eps, affine}, types}), normalize_types, build_rms_norm},
      {"norm", "Frobenius norm of each matrix", "X[b,m,n]  ->  Y[b]", "norm:b=1,m=256,n=256",
       join({{size_key("b", "matrices"), size_key("m", "rows"), size_key("n", "columns")}, types}),
       normalize_types, build_norm}};
}

}  // namespace tilewright::ops
