#include "ir/ops/attention/attention_scores.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/keys.h"
#include "ir/type.h"

namespace tilewright::ops {
namespace {

const char* const kBiasAxes[] = {"batch", "heads", "m", "n"};

// The sum of clamp(first + i, 0, n) over i < m.
double clamped_sum(int64_t first, int64_t m, int64_t n) {
  const int64_t begin = std::clamp<int64_t>(-first, 0, m);       // rows before it count 0
  const int64_t end = std::clamp<int64_t>(n - first, begin, m);  // rows from it on count n
  const auto rows = static_cast<double>(end - begin);
  const double lowest = static_cast<double>(first + begin);
  return rows * lowest + rows * (rows - 1) / 2 +
         static_cast<double>(m - end) * static_cast<double>(n);
}

}  // namespace

Visibility::Visibility(WorkloadBuilder& b, const Expr& batch, Expr m, Expr n)
    : causal_(b.flag("causal")), m_(std::move(m)), n_(std::move(n)) {
  const Spec& spec = b.spec();
  if (spec.has("window")) {
    window_ = b.count("window");
    // Queries that stand before all keys see none of them.
    window_misses_ = spec.get<DimSize>("n").min < spec.get<DimSize>("m").max;
  }
  if (!spec.has("lengths")) return;
  keys_ = b.input("N", ElemType::i32, {batch});
  if (spec.get<std::string>("lengths") == "both") queries_ = b.input("M", ElemType::i32, {batch});
}

Expr Visibility::keys_of(const Expr& b) const {
  return keys_ != nullptr ? cast(ElemType::index, load(keys_, {b})) : n_;
}

Expr Visibility::position(const Expr& b, const Expr& i) const { return plus(i, lead(b, 0)); }

Expr Visibility::lead(const Expr& b, int64_t more) const {
  const Expr queries = queries_ != nullptr ? cast(ElemType::index, load(queries_, {b})) : m_;
  return plus(minus(keys_of(b), queries), more);
}

// The last keys, by one comparison with `j`. Once it fails, it fails for all later keys.
Expr Visibility::before_end(const Expr& b, const Expr& i, const Expr& j) const {
  const Expr keys = keys_of(b);
  if (queries_ == nullptr) {
    if (causal_) return j <= position(b, i);
    return keys_ != nullptr ? j < keys : Expr();
  }
  const Expr queries = cast(ElemType::index, load(queries_, {b}));
  const Expr limit = causal_ ? i + (keys - queries) + Expr(1) : keys;
  return j < select(i < queries, limit, Expr(0));
}

Expr Visibility::condition(const Expr& b, const Expr& i, const Expr& j) const {
  Expr end = before_end(b, i, j);
  if (window_ == 0) return end;
  const Expr from = plus(i, lead(b, -window_)) < j;
  if (causal_) return both(end, from);
  return both(both(end, j < plus(i, lead(b, window_))), from);
}

double seen_share(const Spec& spec) {
  const int64_t m = spec.get<DimSize>("m").max, n = spec.get<DimSize>("n").max;
  const bool causal = spec.get<bool>("causal"), has_window = spec.has("window");
  const int64_t window = has_window ? spec.get<int64_t>("window") : 0;
  const auto all = static_cast<double>(m) * static_cast<double>(n);
  const double ends = causal       ? clamped_sum(n - m + 1, m, n)
                      : has_window ? clamped_sum(n - m + window, m, n)
                                   : all;
  return (ends - (has_window ? clamped_sum(n - m + 1 - window, m, n) : 0)) / all;
}

ScoreTerms::ScoreTerms(WorkloadBuilder& b, const Expr& batch, const Expr& m, const Expr& n)
    : acc_(b.acc), scale_(b.spec().get<double>("scale")),
      cap_(b.spec().has("softcap") ? b.spec().get<double>("softcap") : 0),
      causal_(b.flag("causal")) {
  const Spec& spec = b.spec();
  constexpr int64_t kExact = int64_t{1} << 24;  // integers up to it are values of f32
  are_exact_ = bits_of(acc_) >= 32 &&
               std::max(spec.get<DimSize>("m").max, spec.get<DimSize>("n").max) <= kExact;
  if (spec.has("bias")) {
    bias_axes_ = spec.get<std::vector<std::string>>("bias");
    if (spec.has("bias_shared")) shared_ = b.count("bias_shared");
    const Expr sizes[] = {quotient(plus(batch, shared_ - 1), shared_), b.count("heads"), m, n};
    std::vector<Expr> shape;
    for (size_t axis = 0; axis < std::size(kBiasAxes); ++axis) {
      if (has(kBiasAxes[axis])) shape.push_back(sizes[axis]);
    }
    bias_ = b.input("bias", b.dtype, shape);
  }
  if (spec.has("alibi")) slopes_ = b.input("slopes", acc_, {b.count("heads")});
}

bool ScoreTerms::has(const char* axis) const { return std::ranges::count(bias_axes_, axis) > 0; }

Expr ScoreTerms::value(const Expr& product, const ScorePlace& at, const Visibility& seen) const {
  Expr score = product * make_const(acc_, cap_ > 0 ? scale_ / cap_ : scale_);
  if (cap_ > 0) score = make_const(acc_, cap_) * unary(UnaryOp::Tanh, score);
  if (bias_ != nullptr) {
    const Expr indices[] = {quotient(at.b, shared_), at.h, at.i, at.j};
    Point index;
    for (size_t axis = 0; axis < std::size(kBiasAxes); ++axis) {
      if (has(kBiasAxes[axis])) index.push_back(indices[axis]);
    }
    score = score + cast(acc_, load(bias_, index));
  }
  if (slopes_ == nullptr) return score;
  return score - load(slopes_, {at.h}) * distance(seen.position(at.b, at.i), at.j);
}

// Floats hold both places where they can, so that neither is converted for each score.
Expr ScoreTerms::distance(const Expr& position, const Expr& key) const {
  if (!are_exact_) {
    const Expr behind = position - key;
    return cast(acc_, causal_ ? behind : max(behind, Expr(0) - behind));
  }
  const Expr behind = cast(acc_, position) - cast(acc_, key);
  return causal_ ? behind : unary(UnaryOp::Abs, behind);
}

void normalize_scores(Spec& spec) {
  // Absent keys keep the canonical text of specs that predate them.
  for (const char* flag : {"alibi", "sinks"}) {
    if (spec.has(flag) && !spec.get<bool>(flag)) spec.params.erase(flag);
  }
  if (spec.has("bias")) {
    auto& axes = std::get<std::vector<std::string>>(spec.params.at("bias"));
    std::vector<std::string> ordered;
    for (const char* axis : kBiasAxes) {
      const auto times = std::ranges::count(axes, axis);
      if (times > 1) throw KeyError("bias", fmt::format("the axis '{}' is given twice", axis));
      if (times == 1) ordered.emplace_back(axis);
    }
    if (ordered.empty()) {
      spec.params.erase("bias");
    } else if (ordered.back() != "n") {
      throw KeyError("bias",
                     "without the axis n it is the same for all keys of a row, and a softmax "
                     "takes no notice; expected axes up to n, such as bias=heads+m+n");
    } else {
      axes = ordered;
    }
  }
  if (spec.has("bias_shared") && spec.get<int64_t>("bias_shared") == 1) {
    spec.params.erase("bias_shared");
  }
  const bool by_sequence =
      spec.has("bias") && spec.get<std::vector<std::string>>("bias").front() == "batch";
  if (spec.has("bias_shared") && !by_sequence) {
    throw KeyError("bias_shared",
                   "belongs to a bias with the axis batch; give it, such as "
                   "bias=batch+heads+m+n");
  }
}

std::vector<KeyDef> score_keys() {
  KeyDef window =
      derived_count("window",
                    "sliding window: a query sees the keys that are fewer than this many away "
                    "from its position i + n - m; with causal, itself and those behind it (none)",
                    2);
  window.max = kMaxSize;
  KeyDef bias = optional_key(
      "bias", KeyKind::Names,
      "axes of the operand bias, which is added to capped scores, such as heads+m+n (none)");
  bias.choices = {"batch", "heads", "m", "n"};
  return {window,
          optional_key("softcap", KeyKind::Number,
                       "soft cap of the scaled scores: softcap tanh(s / softcap) (none)"),
          bias,
          derived_count("bias_shared",
                        "neighbouring sequences that share their bias, such as the rows of "
                        "triangle attention (1)"),
          optional_key("alibi", KeyKind::Flag,
                       "ALiBi: subtracts slopes[head] times the distance of query and key (false)"),
          optional_key("sinks", KeyKind::Flag,
                       "attention sinks: sinks[head] is one more score of each row, whose value "
                       "is 0 (false)")};
}

}  // namespace tilewright::ops
