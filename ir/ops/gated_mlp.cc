#include <fmt/format.h>

#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/weight.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

void normalize_gated_mlp(Spec& spec) {
  normalize_types(spec);
  normalize_weight(spec);
  const std::string &acc = spec.get<std::string>("acc"), &out = spec.get<std::string>("out");
  if (is_float(*parse_elem_type(acc)) || is_float(*parse_elem_type(out))) return;
  throw KeyError("out",
                 fmt::format("the gate times what it gates is no {}; give a float output, such "
                             "as out=f16",
                             out));
}

// The gate's product comes first, so the elementwise product of the two follows the second one's
// reduction (Shazeer, "GLU variants improve transformer", 2020).
Workload build_gated_mlp(const Spec& spec) {
  WorkloadBuilder b(spec);
  const bool trans_b = b.flag("trans_b");
  Expr m = b.dim("m"), n = b.dim("n"), k = b.dim("k");
  Buffer A = b.input("A", b.dtype, {m, k});
  std::vector<WeightAxis> stored = {{"k", k, WeightAxis::Summed}, {"j", n, WeightAxis::Column}};
  if (trans_b) std::swap(stored[0], stored[1]);
  WeightOperand G(b, "G", stored), U(b, "U", stored);
  const std::vector<Axis> axes = {{"i", m}, {"j", n}};
  auto product = [&](const std::string& name, const WeightOperand& weight) {
    return b.reduce(name, b.acc, axes, {{"k", k}}, Reducer::Sum,
                    [&](const Point& p, const Point& r) {
                      const Point at = trans_b ? Point{p[1], r[0]} : Point{r[0], p[1]};
                      return cast(b.acc, load(A, {p[0], r[0]})) * weight.value(at);
                    });
  };
  Buffer gate = product("C_gate", G), up = product("C_up", U);
  // Integer accumulators are converted to floats before the gate applies.
  const ElemType joined = is_float(b.acc) ? b.acc : ElemType::f32;
  b.compute("C", b.out, axes, [&](const Point& p) {
    Expr open = apply_function(spec.get<std::string>("act"), cast(joined, load(gate, p)));
    return open * cast(joined, load(up, p));
  });
  return b.finish();
}

}  // namespace

std::vector<Operator> gated_mlp_operators() {
  return {
      {"gated_mlp",
       "act(A G) * (A U): the first half of a gated feed-forward layer (SwiGLU with act=silu)",
       "A[m,k]  G[k,n] of the gate and U[k,n] ([n,k] with trans_b), constant, both as w says  ->  "
       "C[m,n]",
       "gated_mlp:m=16,n=1024,k=512",
       join({{size_key("m", "rows of A and C"), size_key("n", "columns of G, U and C"),
              size_key("k", "the reduction dimension"),
              choice_key("act", "activation of the gate's product",
                         {"silu", "gelu", "relu", "sigmoid", "tanh", "copy"}, "silu"),
              flag_key("trans_b", "G and U are stored [n,k]")},
             type_keys(),
             weight_keys()}),
       normalize_gated_mlp, build_gated_mlp}};
}

}  // namespace tilewright::ops
