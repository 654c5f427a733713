#include <fmt/format.h>

#include <cmath>

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
  if (spec.has("page") != spec.has("pages")) {
    throw KeyError(spec.has("page") ? "page" : "pages",
                   "a paged cache has both: keys of a page, and pages that there are, such as "
                   "page=16,pages=256");
  }
  // `lengths=none` is the default; dropping it keeps the canonical text of specs that predate the
  // key.
  if (spec.has("lengths") && spec.get<std::string>("lengths") == "none") {
    spec.params.erase("lengths");
  }
}

// The share of all query-key scores that a causal mask leaves, at the largest sizes. Row i of m
// sees n - m + i + 1 keys. Lengths are known only at launch, so they count as m and n.
double causal_share(const Spec& spec) {
  const auto m = static_cast<double>(spec.get<DimSize>("m").max);
  const auto n = static_cast<double>(spec.get<DimSize>("n").max);
  return 1 - (m - 1) / (2 * n);
}

// The keys that a query sees: those before a limit that depends on its sequence and its row.
class Visibility {
 public:
  Visibility(WorkloadBuilder& b, const Expr& batch, Expr m, Expr n)
      : causal_(b.flag("causal")), m_(std::move(m)), n_(std::move(n)) {
    if (!b.spec().has("lengths")) return;
    keys_ = b.input("N", ElemType::i32, {batch});
    if (b.spec().get<std::string>("lengths") == "both") {
      queries_ = b.input("M", ElemType::i32, {batch});
    }
  }

  // True when a row may see no key at all.
  bool may_be_empty() const { return keys_ != nullptr; }

  // The condition under which row `i` of sequence `b` sees key `j`. It is one comparison with `j`;
  // once it fails, it fails for all later keys. Undefined where every row sees every key.
  Expr condition(const Expr& b, const Expr& i, const Expr& j) const {
    const Expr keys = keys_ != nullptr ? cast(ElemType::index, load(keys_, {b})) : n_;
    if (queries_ == nullptr) {
      if (causal_) return j <= plus(i, minus(keys, m_));
      return keys_ != nullptr ? j < keys : Expr();
    }
    const Expr queries = cast(ElemType::index, load(queries_, {b}));
    const Expr limit = causal_ ? i + (keys - queries) + Expr(1) : keys;
    return j < select(i < queries, limit, Expr(0));
  }

 private:
  bool causal_;
  Expr m_, n_;
  Buffer keys_, queries_;  // sequence lengths, where they vary
};

// Keys (or values) of each sequence in order, [batch, kv_heads, n, d]. This is an operand of that
// shape, or a stage that looks them up page by page. A page number out of range reads the first or
// the last page, so no number can read past the cache.
class Cache {
 public:
  Cache(WorkloadBuilder& b, const Expr& batch, const Expr& n)
      : b_(b), kv_heads_(b.count("kv_heads")), batch_(batch), n_(n) {
    if (!b.spec().has("page")) return;
    page_ = b.count("page");
    pages_ = b.count("pages");
  }

  bool is_paged() const { return page_ > 0; }

  Buffer operand(const std::string& name, const Expr& d) {
    return is_paged() ? b_.input(name, b_.dtype, {pages_, page_, kv_heads_, d})
                      : b_.input(name, b_.dtype, {batch_, kv_heads_, n_, d});
  }
  void declare_table() {
    if (!is_paged()) return;
    table_ = b_.input("T", ElemType::i32, {batch_, quotient(plus(n_, page_ - 1), page_)});
  }
  Buffer in_order(const Buffer& operand) {
    if (!is_paged()) return operand;
    const Expr& d = operand->shape.back();
    return b_.compute(
        operand->name + "_seq", b_.dtype, {{"b", batch_}, {"h", kv_heads_}, {"j", n_}, {"k", d}},
        [&](const Point& p) {
          Expr page = cast(ElemType::index, load(table_, {p[0], quotient(p[2], page_)}));
          page = max(min(page, Expr(pages_ - 1)), Expr(0));
          const Expr key = page_ == 1 ? Expr(0) : floormod(p[2], Expr(page_));
          return load(operand, {page, key, p[1], p[3]});
        });
  }

 private:
  WorkloadBuilder& b_;
  Expr kv_heads_, batch_, n_;
  int64_t page_ = 0, pages_ = 0;
  Buffer table_;
};

// softmax(scale * Q K^T) V for each head. The row's maximum is subtracted first, so that no
// exponential overflows. Weights are rounded to the type of the values, so that matrix instructions
// multiply the two.
Workload build_attention(const Spec& spec) {
  WorkloadBuilder b(spec);
  const int64_t heads = b.count("heads"), group = heads / b.count("kv_heads");
  Expr batch = b.dim("batch"), m = b.dim("m"), n = b.dim("n");
  Expr d = b.count("d"), dv = b.count("dv");
  Buffer Q = b.input("Q", b.dtype, {batch, heads, m, d});
  Cache cache(b, batch, n);
  Buffer K = cache.operand("K", d), V = cache.operand("V", dv);
  cache.declare_table();
  const Visibility seen(b, batch, m, n);
  K = cache.in_order(K);
  V = cache.in_order(V);
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
    const Expr condition = seen.condition(p[0], p[2], p[3]);
    return condition.defined() ? select(condition, value, otherwise) : value;
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
  if (b.flag("causal")) {
    for (const Buffer& of_keys : {S, scaled, top, P, sum, O}) {
      b.set_work(of_keys->name, causal_share(spec));
    }
  }
  b.compute("Y", b.out, columns, [&](const Point& p) {
    const Expr weights = load(sum, {p[0], p[1], p[2]});
    Expr mean = load(O, p) / weights;
    if (!seen.may_be_empty()) return mean;
    const Expr zero = make_const(b.acc, 0);
    return select(weights > zero, mean, zero);
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
  KeyDef lengths{.name = "lengths",
                 .kind = KeyKind::Choice,
                 .doc =
                     "lengths per sequence: none, of the keys (operand N), or of both keys and "
                     "queries (operands N and M) (none)",
                 .choices = {"none", "keys", "both"}};
  KeyDef page =
      derived_count("page", "keys per page of a paged key-value cache, whose table is T (none)");
  KeyDef pages = derived_count("pages", "number of pages in the key-value cache (none)");
  KeyDef scale{.name = "scale", .kind = KeyKind::Number, .doc = "factor of the scores (1/sqrt(d))"};
  return {
      {"attention", "softmax(scale Q K^T) V for each head",
       "Q[batch,heads,m,d]  K[batch,kv_heads,n,d]  V[batch,kv_heads,n,dv], in pages "
       "K[pages,page,kv_heads,d]  V[pages,page,kv_heads,dv]  T[batch,ceil(n/page)] of i32, each "
       "the number of a page, clamped to the pages  N[batch] "
       "and M[batch] of i32 with lengths  ->  Y[batch,heads,m,dv]; a row that sees no key is 0",
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
              lengths, page, pages, scale},
             type_keys(true)}),
       normalize_attention, build_attention}};
}

}  // namespace tilewright::ops
