// Refusals of products that Triton's text would compute otherwise, or not at all.
#include <fmt/format.h>

#include <algorithm>

#include "cli/export/export_triton_tiles.h"
#include "ir/buffer.h"
#include "ir/compare.h"
#include "ir/ops/spec.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright::cli {
namespace {

// tl.dot has one accumulator of bytes, and none of bf16.
bool is_triton_accumulator(ElemType a, ElemType acc) {
  if (a == ElemType::i8) return acc == ElemType::i32;
  return acc == ElemType::f32 || (a == ElemType::f16 && acc == ElemType::f16);
}

void check_factors(const Workload& w, const TritonProduct& p) {
  const ElemType a = p.a->buffer->elem, b = p.codes(w).buffer->elem;
  const bool is_activation =
      a == ElemType::f16 || a == ElemType::bf16 || a == ElemType::f32 || a == ElemType::i8;
  const bool is_weight =
      is_integer(b) && (bits_of(b) == 4 || (bits_of(b) == 8 && a != ElemType::i8));
  if (!is_activation || !(p.dequantized ? is_weight : a == b)) {
    refuse_triton(w, fmt::format("it multiplies {} by {}", to_string(a), to_string(b)));
  }
  const ElemType acc = p.sum->output->elem;
  const bool is_scaled = p.is_scaled(w);
  if (is_scaled && acc != ElemType::f32) {
    refuse_triton(w, "scaled weights accumulate in f32 alone");
  }
  if (!is_scaled && !is_triton_accumulator(a, acc)) {
    refuse_triton(
        w, fmt::format("products of {} do not accumulate in {}", to_string(a), to_string(acc)));
  }
}

void check_weight(const Workload& w, const TritonProduct& p) {
  if (!p.dequantized) return;
  const ElemType a = p.a->buffer->elem, b = p.codes(w).buffer->elem;
  const auto columns = as_int(p.codes(w).buffer->shape.back());
  if (bits_of(b) == 4 && (!columns || *columns % 2 != 0)) {
    refuse_triton(w, "rows of its weight begin within a byte");
  }
  if (w.weight->scale.empty() && !(w.weight->zero.empty() && w.weight->offset.empty())) {
    refuse_triton(w, "its weight has zero points or offsets and no scales");
  }
  // Differences of codes and zero points are converted to the activations' type.
  const LoadNode* zero = p.weight_load(w.weight->zero);
  const bool is_byte = zero && is_integer(zero->buffer->elem) && bits_of(zero->buffer->elem) == 8;
  if (is_byte && (a == ElemType::i8 || (a == ElemType::bf16 && b == ElemType::i8))) {
    refuse_triton(w, fmt::format("{} does not hold the difference of {} and a zero point of {}",
                                 to_string(a), to_string(b), to_string(zero->buffer->elem)));
  }
}

// Reads of an epilogue's stage: sums at the stage's own point, and nothing that only a condition keeps within
// its buffer, since both sides of tl.where are computed.
class EpilogueChecker : public Visitor {
 public:
  EpilogueChecker(const Workload& w, const TritonProduct& p, const Stage& s) : w_(w), p_(p), s_(s) {
    const auto& shape = s.output->shape;
    const auto& sums = p.sum->output->shape;
    if (!std::equal(shape.begin(), shape.end(), sums.begin(), sums.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); })) {
      refuse_triton(w, fmt::format("its stage {} has other sizes than the sum", s.output->name));
    }
    (*this)(s.value);
  }

 protected:
  void visit_select(const SelectNode& n) override {
    (*this)(n.cond);
    ++conditions_;
    (*this)(n.on_true);
    (*this)(n.on_false);
    --conditions_;
  }
  void visit_load(const LoadNode& n) override {
    if (is_of_product(n.buffer)) {
      const bool is_here =
          std::equal(n.indices.begin(), n.indices.end(), s_.axes.begin(), s_.axes.end(),
                     [](const Expr& x, const Var& axis) { return x.get() == axis.get(); });
      if (!is_here) {
        refuse_triton(w_, fmt::format("its stage {} reads {} at another place", s_.output->name,
                                      n.buffer->name));
      }
    } else if (conditions_ > 0 && !is_whole(n)) {
      refuse_triton(w_, fmt::format("its stage {} reads {} under a condition", s_.output->name,
                                    n.buffer->name));
    }
  }

 private:
  bool is_of_product(const Buffer& b) const {
    return b == p_.sum->output || std::any_of(p_.epilogue.begin(), p_.epilogue.end(),
                                              [&](const Stage* s) { return s->output == b; });
  }
  // Whether each index is an axis of the buffer's extent.
  bool is_whole(const LoadNode& n) const {
    for (size_t d = 0; d < n.indices.size(); ++d) {
      const auto axis = std::find_if(s_.axes.begin(), s_.axes.end(),
                                     [&](const Var& v) { return v.get() == n.indices[d].get(); });
      if (axis == s_.axes.end()) return false;
      const auto at = static_cast<size_t>(axis - s_.axes.begin());
      if (!equal(n.buffer->shape[d], s_.output->shape[at])) return false;
    }
    return true;
  }

  const Workload& w_;
  const TritonProduct& p_;
  const Stage& s_;
  int conditions_ = 0;
};

}  // namespace

void check_triton(const Workload& w, const TritonProduct& p) {
  check_factors(w, p);
  if (!as_int(p.sum->reduce_axes[0].extent)) refuse_triton(w, "its k is dynamic");
  check_weight(w, p);
  for (const Stage* s : p.epilogue) EpilogueChecker(w, p, *s);
}

}  // namespace tilewright::cli
