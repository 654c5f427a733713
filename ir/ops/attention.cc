#include <fmt/format.h>

#include <cmath>

#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/workload_builder.h"
#include "ir/type.h"

namespace tilewright::ops {
namespace {

void normalize(Spec& spec) {
  normalize_types(spec);
  const int64_t heads = spec.get<int64_t>("heads"), d = spec.get<int64_t>("d");
  spec.params.emplace("kv_heads", heads);
  spec.params.emplace("dv", d);
  spec.params.emplace("scale", 1 / std::sqrt(static_cast<double>(d)));
  const int64_t shared = spec.get<int64_t>("kv_heads");
  if (heads % shared != 0) {
    throw KeyError("kv_heads", fmt::format("each one serves as many heads: expected a divisor of "
                                           "heads={}, got {}",
                                           heads, shared));
  }
  const DimSize m = spec.get<DimSize>("m"), n = spec.get<DimSize>("n");
  if (spec.get<bool>("causal") && n.min < m.max) {
    throw KeyError("causal", fmt::format("the queries are the last m of the n keys, so n must not "
                                         "be below m; got m={} and n={}",
                                         to_string(SpecValue(m)), to_string(SpecValue(n))));
  }
}

// softmax(scale * Q K^T) V for each head, from each row's maximum so that no exponential overflows.
// Weights are rounded to the type of the values, so that matrix instructions multiply the two.
Workload build(const Spec& spec) {
  WorkloadBuilder b(spec);
  const int64_t heads = b.count("heads"), group = heads / b.count("kv_heads");
  Expr batch = b.dim("batch"), m = b.dim("m"), n = b.dim("n");
  Expr d = b.count("d"), dv = b.count("dv"), kv_heads = b.count("kv_heads");
  Buffer Q = b.input("Q", b.dtype, {batch, heads, m, d});
  Buffer K = b.input("K", b.dtype, {batch, kv_heads, n, d});
  Buffer V = b.input("V", b.dtype, {batch, kv_heads, n, dv});
  const std::vector<Axis> rows = {{"b", batch}, {"h", heads}, {"i", m}};
  std::vector<Axis> scores = rows, columns = rows;
  scores.push_back({"j", n});
  columns.push_back({"e", dv});
  auto of_row = [](const Point& p, const Expr& last) { return Point{p[0], p[1], p[2], last}; };
  auto head_of = [&](const Point& p, const Expr& key, const Expr& last) {
    return Point{p[0], quotient(p[1], group), key, last};
  };

  Buffer S =
      b.reduce("S", b.acc, scores, {{"k", d}}, Reducer::Sum, [&](const Point& p, const Point& r) {
        return cast(b.acc, load(Q, of_row(p, r[0]))) * cast(b.acc, load(K, head_of(p, p[3], r[0])));
      });
  const Expr scale = make_const(b.acc, spec.get<double>("scale"));
  auto if_seen = [&](const Point& p, Expr value, const Expr& otherwise) {
    if (!b.flag("causal")) return value;
    return select(p[3] <= plus(p[2], minus(n, m)), value, otherwise);
  };
  Buffer scaled = b.compute("S_scaled", b.acc, scores, [&](const Point& p) {
    return if_seen(p, load(S, p) * scale, identity_of(Reducer::Max, b.acc));
  });
  Buffer top =
      b.reduce("S_max", b.acc, rows, {{"j", n}}, Reducer::Max,
               [&](const Point& p, const Point& r) { return load(scaled, of_row(p, r[0])); });
  Buffer P = b.compute("P", b.acc, scores, [&](const Point& p) {
    Expr weight = unary(UnaryOp::Exp, load(scaled, p) - load(top, {p[0], p[1], p[2]}));
    return cast(b.acc, cast(b.dtype, if_seen(p, weight, make_const(b.acc, 0))));
  });
  Buffer sum = b.reduce("P_sum", b.acc, rows, {{"j", n}}, Reducer::Sum,
                        [&](const Point& p, const Point& r) { return load(P, of_row(p, r[0])); });
  Buffer O =
      b.reduce("O", b.acc, columns, {{"j", n}}, Reducer::Sum, [&](const Point& p, const Point& r) {
        return load(P, of_row(p, r[0])) * cast(b.acc, load(V, head_of(p, r[0], p[3])));
      });
  b.compute("Y", b.out, columns, [&](const Point& p) {
    return load(O, p) / load(sum, {p[0], p[1], p[2]});
  });
  return b.finish();
}

KeyDef derived_count(std::string name, std::string doc) {
  return {.name = std::move(name), .kind = KeyKind::Count, .doc = std::move(doc), .min = 1};
}

}  // namespace

std::vector<Operator> attention_operators() {
  KeyDef batch{
      .name = "batch", .kind = KeyKind::Size, .doc = "sequences", .fallback = DimSize{1, 1}};
  KeyDef d = derived_count("d", "elements of a query and of a key");
  d.required = true;
  KeyDef scale{.name = "scale", .kind = KeyKind::Number, .doc = "factor of the scores (1/sqrt(d))"};
  return {{"attention", "softmax(scale Q K^T) V for each head",
           "Q[batch,heads,m,d]  K[batch,kv_heads,n,d]  V[batch,kv_heads,n,dv]  ->  "
           "Y[batch,heads,m,dv]",
           "attention:heads=8,m=128,n=128,d=64",
           join({{batch, count_key("heads", "heads of the queries", 1, 1),
                  derived_count("kv_heads",
                                "heads of keys and values, each for heads/kv_heads of "
                                "the queries' (heads)"),
                  size_key("m", "queries"), size_key("n", "keys"), d,
                  derived_count("dv", "elements of a value (d)"),
                  flag_key("causal", "query i sees the keys up to i + n - m"), scale},
                 type_keys(true)}),
           normalize, build}};
}

}  // namespace tilewright::ops
