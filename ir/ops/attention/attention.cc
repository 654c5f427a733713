#include <fmt/format.h>

#include <cmath>

#include "ir/ops/attention/attention_cache.h"
#include "ir/ops/attention/attention_scores.h"
#include "ir/ops/builders.h"
#include "ir/ops/keys.h"
#include "ir/ops/workload_builder.h"
#include "ir/type.h"

namespace tilewright::ops {
namespace {

void normalize_attention(Spec& spec) {
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
  normalize_scores(spec);
  normalize_cache(spec);
  // `lengths=none` is the default; dropping it keeps the canonical text of specs that predate the
  // key.
  if (spec.has("lengths") && spec.get<std::string>("lengths") == "none") {
    spec.params.erase("lengths");
  }
}

// softmax(scale * Q K^T) V for each head. The row's maximum is subtracted first, so that no
// exponential overflows. Weights are rounded to the type of the values, so that matrix instructions
// multiply the two.
Workload build_attention(const Spec& spec) {
  WorkloadBuilder b(spec);
  const int64_t heads = b.count("heads"), group = heads / b.count("kv_heads");
  Expr batch = b.dim("batch"), m = b.dim("m"), n = b.dim("n");
  const int64_t d = b.count("d"), dv = b.count("dv");
  Buffer Q = b.input("Q", b.dtype, {batch, heads, m, d});
  Cache cache(b, batch, n);
  const Cache::Operand keys = cache.operand("K", d), values = cache.operand("V", dv);
  cache.declare_table();
  const Visibility seen(b, batch, m, n);
  const ScoreTerms terms(b, batch, m, n);
  Buffer sinks;
  if (spec.has("sinks")) sinks = b.input("sinks", b.acc, {heads});
  const Buffer K = cache.in_order(keys), V = cache.in_order(values);
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
  auto if_seen = [&](const Point& p, Expr value, const Expr& otherwise) {
    const Expr condition = seen.condition(p[0], p[2], p[3]);
    return condition.defined() ? select(condition, value, otherwise) : value;
  };
  // Masks belong to the readers: these leave out keys, whether the scores are stored or not.
  Buffer scaled = b.compute("S_scaled", b.acc, scores, [&](const Point& p) {
    return terms.value(load(S, p), {p[0], p[1], p[2], p[3]}, seen);
  });
  Buffer top =
      b.reduce("S_max", b.acc, rows, {{"j", n}}, Reducer::Max, [&](const Point& p, const Point& r) {
        const Point at = of_row(p, r[0]);
        return if_seen(at, load(scaled, at), identity_of(Reducer::Max, b.acc));
      });
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
  if (const double share = seen_share(spec); share < 1) {
    for (const Buffer& of_keys : {S, scaled, top, P, sum, O}) b.set_work(of_keys->name, share);
  }
  b.compute("Y", b.out, columns, [&](const Point& p) {
    const Point row = {p[0], p[1], p[2]};
    Expr weights = load(sum, row);
    const Expr zero = make_const(b.acc, 0), lowest = identity_of(Reducer::Max, b.acc);
    const Expr any = sinks ? load(top, row) > lowest : weights > zero;
    // A sink far above all scores has an infinite weight, and the row is 0.
    if (sinks) weights = weights + unary(UnaryOp::Exp, load(sinks, {p[1]}) - load(top, row));
    Expr mean = load(O, p) / weights;
    if (!seen.may_be_empty()) return mean;
    return select(any, mean, zero);
  });
  return b.finish();
}

}  // namespace

std::vector<Operator> attention_operators() {
  KeyDef batch{
      .name = "batch", .kind = KeyKind::Size, .doc = "sequences", .fallback = DimSize{1, 1}};
  KeyDef d = derived_count("d", "elements of a query and of a key");
  d.required = true;
  KeyDef lengths{.name = "lengths",
                 .kind = KeyKind::Choice,
                 .doc =
                     "lengths per sequence: none, of the keys (operand N), or of both keys and "
                     "queries (operands N and M) (none)",
                 .choices = {"none", "keys", "both"}};
  KeyDef scale{.name = "scale", .kind = KeyKind::Number, .doc = "factor of the scores (1/sqrt(d))"};
  return {
      {"attention", "softmax(scale Q K^T) V for each head",
       "Q[batch,heads,m,d]  K[batch,kv_heads,n,d]  V[batch,kv_heads,n,dv], in pages "
       "K[pages,page,kv_heads,d]  V[pages,page,kv_heads,dv]  T[batch,ceil(n/page)] of i32, each "
       "the number of a page, clamped to the pages  N[batch] "
       "and M[batch] of i32 with lengths; K.scale, K.zero, V.scale and V.zero with kv.dtype, of "
       "the "
       "cache's shape with a group in place of its elements; bias[of its axes]  slopes[heads] with "
       "alibi  sinks[heads]  ->  Y[batch,heads,m,dv]; a row that sees no key is 0",
       "attention:heads=8,m=128,n=128,d=64",
       join({{batch, count_key("heads", "heads of the queries", 1, 1),
              derived_count("kv_heads",
                            "heads of keys and values, each for heads/kv_heads of "
                            "the queries' (heads)"),
              size_key("m", "queries"), size_key("n", "keys"), d,
              derived_count("dv", "elements of a value (d)"),
              flag_key("causal",
                       "causal mask: query i sees the keys up to i + n - m; with lengths, those of "
                       "its sequence count"),
              lengths},
             cache_keys(),
             {scale},
             score_keys(),
             type_keys(true)}),
       normalize_attention, build_attention}};
}

}  // namespace tilewright::ops
