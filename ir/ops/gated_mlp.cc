#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

// The gate's product in front, so that what joins the two stands behind the other one's sums (Shazeer,
// "GLU variants improve transformer", 2020).
Workload build(const Spec& spec) {
  WorkloadBuilder b(spec);
  const bool trans_b = b.flag("trans_b");
  Expr m = b.dim("m"), n = b.dim("n"), k = b.dim("k");
  Buffer A = b.input("A", b.dtype, {m, k});
  const std::vector<Expr> shape = trans_b ? std::vector<Expr>{n, k} : std::vector<Expr>{k, n};
  Buffer G = b.input("G", b.dtype, shape, ParamRole::Weight);
  Buffer U = b.input("U", b.dtype, shape, ParamRole::Weight);
  const std::vector<Axis> axes = {{"i", m}, {"j", n}};
  auto product = [&](const std::string& name, const Buffer& weight) {
    return b.reduce(name, b.acc, axes, {{"k", k}}, Reducer::Sum,
                    [&](const Point& p, const Point& r) {
                      Expr w = load(weight, trans_b ? Point{p[1], r[0]} : Point{r[0], p[1]});
                      return cast(b.acc, load(A, {p[0], r[0]})) * cast(b.acc, w);
                    });
  };
  Buffer gate = product("C_gate", G), up = product("C_up", U);
  b.compute("C", b.out, axes, [&](const Point& p) {
    return apply_function(spec.get<std::string>("act"), load(gate, p)) * load(up, p);
  });
  return b.finish();
}

}  // namespace

std::vector<Operator> gated_mlp_operators() {
  return {{"gated_mlp",
           "act(A G) * (A U): the first half of a gated feed-forward layer (SwiGLU with act=silu)",
           "A[m,k]  G[k,n] of the gate and U[k,n] ([n,k] with trans_b), constant  ->  C[m,n]",
           "gated_mlp:m=16,n=1024,k=512",
           join({{size_key("m", "rows of A and C"), size_key("n", "columns of G, U and C"),
                  size_key("k", "the summed dimension"),
                  choice_key("act", "what the gate's product goes through",
                             {"silu", "gelu", "relu", "sigmoid", "tanh", "copy"}, "silu"),
                  flag_key("trans_b", "G and U are stored [n,k]")},
                 type_keys(true)}),
           normalize_types, build}};
}

}  // namespace tilewright::ops
