// Loops that are matrix instructions of a warp with an operand of which elements are left out.
#include <fmt/format.h>

#include "codegen/cuda_lowering.h"
#include "codegen/cuda_mma.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

[[noreturn]] void fail(const ForNode& loop, const std::string& reason) {
  throw LoweringError(
      fmt::format("loop '{}' is marked as mma '{}': {}", loop.var.name(), mma_mark(loop), reason));
}

// Puts `with` in the place of the load of a buffer, and of what converts it.
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

// The nest's parts, by what they read: the elements, the places of these, and the operand that is
// read there.
struct Parts {
  std::vector<const ForNode*> loops;
  const StoreNode* store = nullptr;
  const LoadNode* values = nullptr;
  const LoadNode* places = nullptr;
  const LoadNode* gathered = nullptr;

  const ForNode& terms() const { return *loops.back(); }
};

const LoadNode* load_in_index(const LoadNode& load) {
  const LoadNode* found = nullptr;
  for_each_expr(load.indices[0], [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) found = n;
  });
  return found;
}

// Without the operands that are not there.
Parts parts_of(const ForNode& loop) {
  Parts p;
  for (const ForNode* at = &loop; at; at = at->body.as<ForNode>()) {
    p.loops.push_back(at);
    p.store = at->body.as<StoreNode>();
  }
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
    bool other = load && load != p.gathered && load != p.places && is_private(load->buffer);
    if (other && load->buffer != p.store->buffer) p.values = load;
  });
  return p;
}

// An index of the nest at given values of its variables, 0 for all others.
class Places {
 public:
  Places(const Parts& parts, Analyzer& known) : known_(known) {
    for (const ForNode* l : parts.loops) zero_[l->var.get()] = 0;
  }
  Expr at(const Expr& index, const Expr& var, int64_t value) {
    VarMap map = zero_;
    map[var.get()] = value;
    return known_.simplify(substitute(index, map));
  }
  Expr first(const Expr& index) { return known_.simplify(substitute(index, zero_)); }
  // How far the index moves from 0 to `value` of the variable; nothing where that is no number.
  std::optional<int64_t> moved(const Expr& index, const Expr& var, int64_t value) {
    return as_int(known_.simplify(at(index, var, value) - first(index)));
  }

 private:
  Analyzer& known_;
  VarMap zero_;
};

// Of the gathered operand's index, without the places: term r stands r / keep * of further on, and a
// place counts once.
void require_gather(const ForNode& loop, const SparseMmaRow& row, const Parts& p, Places& places) {
  const BufferNode* of = p.places->buffer.get();
  const Expr& index = p.gathered->indices[0];
  Expr without = InPlaceOf(of, Expr(0))(index), with_one = InPlaceOf(of, Expr(1))(index);
  bool fits = as_int(simplify(places.first(with_one) - places.first(without))) == 1;
  const int64_t terms = int64_t{row.kept()} * row.selectors();
  for (int64_t r = 0; r < terms && fits; ++r) {
    fits = places.moved(without, p.terms().var, r) == r / row.keep * row.of;
  }
  if (!fits) {
    fail(loop, fmt::format("'{}' is not read at the places of {} of each {} neighbours",
                           p.gathered->buffer->name, row.keep, row.of));
  }
}

// As if the elements were all there, `step` of the gathered operand apart: the loop over terms runs
// over `extent`, those of one instruction.
ForNode whole_nest(const Parts& p, int64_t extent, int64_t step) {
  const ForNode& terms = p.terms();
  Var k("whole_" + terms.var.name());
  class Whole : public Mutator {
   public:
    Whole(const Parts& p, Expr distance) : p_(p), distance_(std::move(distance)) {}

   protected:
    Expr mutate_load(const LoadNode& n, const Expr& e) override {
      if (n.buffer != p_.gathered->buffer) return Mutator::mutate_load(n, e);
      Expr index = InPlaceOf(p_.places->buffer.get(), Expr(0))(n.indices[0]);
      return load(n.buffer, {substitute(index, {{p_.terms().var.get(), Expr(0)}}) + distance_});
    }
    Expr mutate_var(const VarNode& n, const Expr& e) override {
      return &n == p_.terms().var.get() ? Expr(0) : e;
    }

   private:
    const Parts& p_;
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

}  // namespace

MmaNest match_sparse_mma(const ForNode& loop, const SparseMmaRow& row, Analyzer& known) {
  Parts p = parts_of(loop);
  bool found =
      p.values && p.places && is_private(p.places->buffer) && bits_of(p.places->buffer->elem) == 2;
  if (!found) {
    fail(loop,
         "it must multiply elements in registers by those at places in registers, 2 bits each");
  }
  Places places(p, known);
  const int64_t terms = int64_t{row.kept()} * row.selectors();
  const Var& r = p.terms().var;
  if (as_int(p.terms().extent) != terms) {
    fail(loop, fmt::format("loop '{}' must run over {} terms, those of {} instructions", r.name(),
                           terms, row.selectors()));
  }
  require_gather(loop, row, p, places);
  MmaNest nest = match_mma_as(whole_nest(p, row.whole.k, 1), row.whole, known);
  const Expr &values = p.values->indices[0], &words = p.places->indices[0];
  auto step = places.moved(values, r, row.kept());
  bool steady = places.moved(words, r, terms - 1) == 0 &&
                step == (row.selectors() > 1 ? step : std::optional<int64_t>(0));
  for (int64_t s = 1; s < row.selectors() && step; ++s) {
    steady = steady && places.moved(values, r, s * row.kept()) == s * *step;
  }
  nest.sparse = {&row, p.places->buffer, places.first(words), 0, step.value_or(0)};
  for (size_t l = 0; l + 3 < p.loops.size(); ++l) {
    auto of_words = places.moved(words, p.loops[l]->var, 1);
    auto of_values = places.moved(values, p.loops[l]->var, 1);
    steady = steady && of_words && of_values && (*of_words == 0) == (*of_values == 0);
    if (steady && *of_words != 0) nest.sparse.fragment = *of_words;
  }
  if (!steady) fail(loop, "what it has in registers does not move with its fragments");
  return nest;
}

std::optional<MmaNest> match_gathered_mma(const ForNode& loop, const MmaRow& row, Analyzer& known) {
  Parts p = parts_of(loop);
  if (!p.values || !p.places) return std::nullopt;
  Places places(p, known);
  const BufferNode* of = p.places->buffer.get();
  const Expr &index = p.gathered->indices[0], &word = p.places->indices[0];
  auto step = as_int(simplify(places.first(InPlaceOf(of, Expr(1))(index)) -
                              places.first(InPlaceOf(of, Expr(0))(index))));
  bool same = p.loops.size() >= 3 && step.has_value();
  for (const ForNode* l : p.loops) {
    const int64_t last = as_int(l->extent).value_or(1) - 1;
    same = same && (l == &p.terms() || places.moved(word, l->var, last) == 0);
  }
  if (!same) {
    fail(loop, fmt::format("'{}' is not read at places that are the same for all rows and columns",
                           p.gathered->buffer->name));
  }
  MmaNest nest = match_mma_as(whole_nest(p, row.k, *step), row, known);
  if (nest.b.column != 1 || row.b_registers() * 8 != row.k) {
    fail(loop, fmt::format("the columns of '{}', which is read at places, are no neighbours of 16 "
                           "bits in a tile",
                           p.gathered->buffer->name));
  }
  VarMap first;
  Var term("row");
  for (const ForNode* l : p.loops) first[l->var.get()] = 0;
  first[p.terms().var.get()] = term;
  known.bind(term, Expr(0), Expr(row.k));
  nest.gather = {term, known.simplify(substitute(index, first))};
  return nest;
}

namespace {

// A lane's word for fragment `f` of A.
std::string word_of(const MmaNest& nest, const std::string& f, CudaExpr& expr) {
  const int64_t in_byte = 8 / bits_of(nest.sparse.words->elem);
  return fmt::format("tw_word_at({} + ({} + {} * {}))", expr.buffers.at(nest.sparse.words.get()),
                     expr.print(simplify(floordiv(nest.sparse.start, Expr(in_byte)))), f,
                     nest.sparse.fragment / in_byte);
}

}  // namespace

std::vector<std::string> sparse_mma_lines(const MmaNest& nest, CudaExpr& expr) {
  const std::string lane = expr.fresh("lane"), b = expr.fresh("b"), f = expr.fresh("f"),
                    g = expr.fresh("g"), e = expr.fresh("e");
  const std::string unroll = "#pragma unroll", sums = mma_sums(nest, f, g, expr);
  std::vector<std::string> lines = {
      fmt::format("const int {} = threadIdx.x % 32;", lane),
      fmt::format("unsigned {}[{}], {}[{}][{}];", e, nest.a_fragments, b, nest.b_fragments,
                  nest.row->b_registers()),
      unroll,
      fmt::format("{}{}[{}] = {};", mma_loop(f, nest.a_fragments), e, f, word_of(nest, f, expr))};
  for (int s = 0; s < nest.steps(); ++s) {
    MmaNest step = nest;
    step.b.start = nest.b.start + Expr(s * nest.row->k);
    const std::string a = fmt::format(
        "*(unsigned(*)[{}])({} + ({} + {} * {}))", nest.a_registers(),
        expr.buffers.at(nest.a.buffer.get()),
        expr.print(simplify(nest.a.start + Expr(s * nest.sparse.next_step))), f, nest.a.fragment);
    const std::vector<std::string> products = {
        unroll,
        mma_loop(g, nest.b_fragments) + mma_load_b(step, false, b, g, lane, expr),
        unroll,
        mma_loop(f, nest.a_fragments) + "{",
        "  " + unroll,
        "  " + mma_loop(g, nest.b_fragments) + "{",
        fmt::format("    tw_mma_{}<{}>({}, {}, {}[{}], {}, {}[{}]);", nest.row->name, s, sums, a, b,
                    g, sums, e, f),
        "  }",
        "}"};
    lines.insert(lines.end(), products.begin(), products.end());
  }
  return lines;
}

}  // namespace tilewright
