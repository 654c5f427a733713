#include "codegen/cuda/instructions/cuda_sparse_parts.h"

#include <fmt/format.h>

#include <utility>

#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// Replaces the load of a buffer, and a conversion of it, by `with`.
class InPlaceOf : public Mutator {
 public:
  InPlaceOf(const BufferNode* buffer, Expr with) : buffer_(buffer), with_(std::move(with)) {}

 protected:
  Expr mutate_cast(const CastNode& n, const Expr& e) override {
    auto* load = n.value.as<LoadNode>();
    return load && load->buffer.get() == buffer_ ? with_ : Mutator::mutate_cast(n, e);
  }

 private:
  const BufferNode* buffer_;
  Expr with_;
};

const LoadNode* load_in_index(const LoadNode& load) {
  const LoadNode* found = nullptr;
  for_each_expr(load.indices[0], [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) found = n;
  });
  return found;
}

}  // namespace

SparseParts sparse_parts_of(const ForNode& loop) {
  const LoopNest nest = loop_nest(loop);
  SparseParts p{nest.loops, nest.body.as<StoreNode>()};
  if (!p.store) return p;
  for_each_expr(p.store->value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    if (!load || load->buffer == p.store->buffer) return;
    if (const LoadNode* inner = load_in_index(*load)) {
      p.gathered = load;
      p.places = inner;
    }
  });
  for_each_expr(p.store->value, [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    const bool is_other = load && load != p.gathered && load != p.places;
    if (is_other && load->buffer != p.store->buffer) p.values = load;
  });
  return p;
}

Expr in_place_of(const Buffer& buffer, const Expr& with, const Expr& e) {
  return InPlaceOf(buffer.get(), with)(e);
}

ForNode whole_sparse_nest(const SparseParts& p, int64_t extent, int64_t step) {
  const ForNode& terms = p.terms();
  Var k("whole_" + terms.var.name());
  class Whole : public Mutator {
   public:
    Whole(const SparseParts& p, Expr distance) : p_(p), distance_(std::move(distance)) {}

   protected:
    Expr mutate_load(const LoadNode& n, const Expr& e) override {
      if (n.buffer != p_.gathered->buffer) return Mutator::mutate_load(n, e);
      Expr index = in_place_of(p_.places->buffer, Expr(0), n.indices[0]);
      return load(n.buffer, {substitute(index, {{p_.terms().var.get(), Expr(0)}}) + distance_});
    }
    Expr mutate_var(const VarNode& n, const Expr& e) override {
      return &n == p_.terms().var.get() ? Expr(0) : e;
    }

   private:
    const SparseParts& p_;
    Expr distance_;
  };
  Stmt nest = Whole(p, k * Expr(step))(terms.body);
  nest = make_for(k, Expr(0), Expr(extent), terms.for_kind, nest, terms.annotations);
  for (size_t l = p.loops.size() - 1; l-- > 0;) {
    const ForNode& loop = *p.loops[l];
    nest = make_for(loop.var, loop.min, loop.extent, loop.for_kind, nest, loop.annotations);
  }
  return *nest.as<ForNode>();
}

namespace {

// Requires A's elements and their places in registers, and the innermost loop to run over k of all
// instructions that share a word of metadata. The gathered operand must be read at `keep` of each
// `of` neighbours. Element r stands r / keep * of further on, and a place counts once.
void require_sparse_terms(const ForNode& loop, const Instruction& row, const SparseParts& p,
                          const NestIndex& index) {
  const bool found = p.values && is_private(p.values->buffer) && p.places &&
                     is_private(p.places->buffer) &&
                     bits_of(p.places->buffer->elem) == row.index_bits;
  if (!found) {
    fail_mma(loop, fmt::format("it must multiply elements in registers by those at places in "
                               "registers, {} bits each",
                               row.index_bits));
  }
  const Var& r = p.terms().var;
  const int64_t terms = int64_t{row.kept()} * row.selectors();
  if (as_int(p.terms().extent) != terms) {
    fail_mma(loop, fmt::format("loop '{}' must run over {} terms, those of {} instructions",
                               r.name(), terms, row.selectors()));
  }
  const Expr& at = p.gathered->indices[0];
  const Expr without = in_place_of(p.places->buffer, Expr(0), at),
             with_one = in_place_of(p.places->buffer, Expr(1), at);
  bool fits = as_int(simplify(index.first(with_one) - index.first(without))) == 1;
  for (int64_t x = 0; x < terms && fits; ++x) {
    fits = index.moved(without, r, x) == x / row.keep * row.of;
  }
  if (!fits) {
    fail_mma(loop, fmt::format("'{}' is not read at the places of {} of each {} neighbours",
                               p.gathered->buffer->name, row.keep, row.of));
  }
}

}  // namespace

ForNode dense_nest_of(const ForNode& loop, const Instruction& row, Analyzer& known) {
  const SparseParts p = sparse_parts_of(loop);
  require_sparse_terms(loop, row, p, NestIndex(p.loops, known));
  return whole_sparse_nest(p, row.k, 1);
}

SparseWords sparse_words_of(const ForNode& loop, const Instruction& row, Analyzer& known) {
  const SparseParts p = sparse_parts_of(loop);
  const NestIndex index(p.loops, known);
  const Expr &values = p.values->indices[0], &words = p.places->indices[0];
  const Var& r = p.terms().var;
  const int64_t terms = int64_t{row.kept()} * row.selectors();
  auto step = index.moved(values, r, row.kept());
  bool steady = index.moved(words, r, terms - 1) == 0 &&
                step == (row.selectors() > 1 ? step : std::optional<int64_t>(0));
  for (int64_t s = 1; s < row.selectors() && step; ++s) {
    steady = steady && index.moved(values, r, s * row.kept()) == s * *step;
  }
  SparseWords result{p.places->buffer, index.first(words), 0, 0, step.value_or(0)};
  for (size_t l = 0; l + 3 < p.loops.size(); ++l) {
    auto of_words = index.moved(words, p.loops[l]->var, 1);
    auto of_values = index.moved(values, p.loops[l]->var, 1);
    steady = steady && of_words && of_values && (*of_words == 0) == (*of_values == 0);
    // Like operands, words of further rows of A move with the accumulators.
    const bool is_along_k = index.moved(p.store->indices[0], p.loops[l]->var, 1) == 0;
    if (of_words.value_or(0) != 0) (is_along_k ? result.step : result.fragment) = *of_words;
  }
  if (!steady) fail_mma(loop, "its registers do not move with its fragments");
  return result;
}

std::string sparse_word(const SparseWords& words,
                        const std::vector<std::pair<std::string, int64_t>>& further,
                        CudaExpr& expr) {
  const int64_t in_byte = 8 / bits_of(words.words->elem);
  std::string at = expr.print(simplify(floordiv(words.start, Expr(in_byte))));
  for (const auto& [counter, distance] : further) {
    at += fmt::format(" + {} * {}", counter, distance / in_byte);
  }
  return fmt::format("tw_word_at({} + ({}))", expr.buffers.at(words.words.get()), at);
}

}  // namespace tilewright
