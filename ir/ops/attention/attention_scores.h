// The scores of attention besides scale * Q K^T: the keys that a query sees, and the terms that are
// added to a score.
#pragma once

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// A score before the softmax: the sequence, the head, the query and the key.
struct ScorePlace {
  Expr b, h, i, j;
};

// The keys that a query sees: a range whose ends depend on its sequence and its row.
class Visibility {
 public:
  // Declares the lengths of sequences, where they vary.
  Visibility(WorkloadBuilder& b, const Expr& batch, Expr m, Expr n);

  // True when a row may see no key at all.
  bool may_be_empty() const { return keys_ != nullptr || window_misses_; }
  // The place of row `i` of sequence `b` among the keys.
  Expr position(const Expr& b, const Expr& i) const;
  // The condition under which row `i` of sequence `b` sees key `j`: comparisons of indices. One that
  // fails behind the last key that is seen fails for all later keys, and one that fails before the
  // first one fails for all earlier keys. Undefined where every row sees every key.
  Expr condition(const Expr& b, const Expr& i, const Expr& j) const;

 private:
  Expr keys_of(const Expr& b) const;
  // The position of the first query, and `more`.
  Expr lead(const Expr& b, int64_t more) const;
  Expr before_end(const Expr& b, const Expr& i, const Expr& j) const;

  bool causal_, window_misses_ = false;
  int64_t window_ = 0;  // 0: there is none
  Expr m_, n_;
  Buffer keys_, queries_;  // sequence lengths, where they vary
};

// The share of all query-key scores that the masks leave, at the largest sizes. Lengths are known only
// at launch, so they count as m and n.
double seen_share(const Spec& spec);

// The score's scale, soft cap, bias and distance, by the keys `scale`, `softcap`, `bias` and `alibi`.
class ScoreTerms {
 public:
  // Declares the operands `bias` and `slopes`, where the spec asks for them.
  ScoreTerms(WorkloadBuilder& b, const Expr& batch, const Expr& m, const Expr& n);

  Expr value(const Expr& product, const ScorePlace& at, const Visibility& seen) const;

 private:
  bool has(const char* axis) const;
  Expr distance(const Expr& position, const Expr& key) const;

  ElemType acc_;
  double scale_, cap_;       // cap_ 0: there is none
  bool causal_, are_exact_;  // are_exact_: floats hold the places of queries and keys
  std::vector<std::string> bias_axes_;
  int64_t shared_ = 1;  // sequences that share their bias
  Buffer bias_, slopes_;
};

// Checks the keys of masks and terms, and brings specs of equal meaning to one form.
void normalize_scores(Spec& spec);
std::vector<KeyDef> score_keys();

}  // namespace tilewright::ops
