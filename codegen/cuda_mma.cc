#include "codegen/cuda_mma.h"

#include <fmt/format.h>

#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

[[noreturn]] void fail(const ForNode& loop, const std::string& reason) {
  throw LoweringError(
      fmt::format("loop '{}' is marked as mma '{}': {}", loop.var.name(), mma_mark(loop), reason));
}

// The five loops of the nest, by what they run over.
struct Loops {
  std::vector<const ForNode*> all;
  const StoreNode* store = nullptr;
};

// An index as a sum of the loops' variables times constants.
struct Strides {
  Expr start;
  std::vector<int64_t> of;  // a loop each
};

Strides strides_of(const ForNode& loop, const Loops& loops, const Expr& index, Analyzer& known) {
  VarMap zero;
  for (const ForNode* l : loops.all) zero[l->var.get()] = 0;
  Strides s{known.simplify(substitute(index, zero)), {}};
  for (const ForNode* l : loops.all) {
    VarMap one = zero, two = zero;
    one[l->var.get()] = 1;
    two[l->var.get()] = 2;
    auto step = as_int(known.simplify(substitute(index, one) - s.start));
    bool unit = is_int(l->extent, 1);
    auto next = unit ? std::optional<int64_t>(step.value_or(0) * 2)
                     : as_int(known.simplify(substitute(index, two) - s.start));
    bool linear = step && next && (*next == 2 * *step || is_int(l->extent, 2));
    if (!linear) fail(loop, "an index does not run in equal steps along '" + l->var.name() + "'");
    s.of.push_back(*step);
  }
  return s;
}

const LoadNode* load_in(const Expr& e) {
  if (auto* n = e.as<CastNode>()) return load_in(n->value);
  return e.as<LoadNode>();
}

// Whether the first of four loops is over fragments of rows: what the operand with the rows, which
// has them in registers or at the second loop, depends on.
bool runs_over_rows(const StoreNode& store, const std::vector<const ForNode*>& loops) {
  bool found = false;
  for_each_expr(store.value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (!n || n->buffer == store.buffer || !uses_var(n->indices[0], loops[0]->var)) return;
    found |= is_private(n->buffer) || uses_var(n->indices[0], loops[1]->var);
  });
  return found;
}

// Loops over one fragment may have gone: they are found again in `kept`.
Loops loops_of(const ForNode& loop, const MmaRow& row, std::vector<Stmt>& kept) {
  Loops loops;
  const ForNode* at = &loop;
  while (at) {
    loops.all.push_back(at);
    loops.store = at->body.as<StoreNode>();
    at = at->body.as<ForNode>();
  }
  const size_t depth = loops.all.size();
  bool five = depth >= 3 && depth <= 5 && loops.store && !loops.store->predicate.defined();
  if (!five) fail(loop, "it must be five loops around one store, less those over one fragment");
  // Fragments of rows are those that tell the operand apart which the row does.
  auto unit = [&](size_t place) {
    kept.push_back(make_for(Var("f"), 0, 1, ForKind::Serial, loop.body));
    loops.all.insert(loops.all.begin() + static_cast<long>(place), kept.back().as<ForNode>());
  };
  if (depth == 3) unit(0);
  if (depth < 5) unit(depth == 4 && runs_over_rows(*loops.store, loops.all) ? 1 : 0);
  const int64_t sizes[] = {row.m, row.n, row.k};
  for (size_t l = 0; l < 5; ++l) {
    auto extent = as_int(loops.all[l]->extent);
    bool fits = extent && is_int(loops.all[l]->min, 0) && (l < 2 || *extent == sizes[l - 2]);
    if (!fits) fail(loop, fmt::format("loop '{}' has another size", loops.all[l]->var.name()));
  }
  return loops;
}

}  // namespace

std::string mma_mark(const ForNode& loop) {
  auto it = loop.annotations.find(kMmaKey);
  auto* name = it == loop.annotations.end() ? nullptr : std::get_if<std::string>(&it->second);
  return name ? *name : "";
}

MmaNest match_mma(const ForNode& loop, Analyzer& known) {
  const MmaRow* row = find_mma(mma_mark(loop));
  if (!row) fail(loop, "there is no such row");
  if (row->a_registers() != 4 || row->b_registers() != 2) {
    fail(loop, "only rows with four registers of A and two of B are printed yet");
  }
  std::vector<Stmt> kept;
  Loops loops = loops_of(loop, *row, kept);
  auto* sum = loops.store->value.as<BinaryNode>();
  auto* product = sum && sum->op == BinaryOp::Add ? sum->b.as<BinaryNode>() : nullptr;
  auto* acc = sum ? sum->a.as<LoadNode>() : nullptr;
  bool is_sum =
      product && product->op == BinaryOp::Mul && acc && acc->buffer == loops.store->buffer;
  const LoadNode* x = is_sum ? load_in(product->a) : nullptr;
  const LoadNode* y = is_sum ? load_in(product->b) : nullptr;
  if (!x || !y) fail(loop, "its store must add a product of two elements");
  Strides a = strides_of(loop, loops, x->indices[0], known);
  Strides b = strides_of(loop, loops, y->indices[0], known);
  const bool in_registers = is_private(x->buffer) || is_private(y->buffer);
  if (in_registers ? !is_private(x->buffer) : a.of[2] == 0) {
    std::swap(a, b);
    std::swap(x, y);
  }
  Strides c = strides_of(loop, loops, loops.store->indices[0], known);
  bool shared =
      (in_registers || x->buffer->scope == Scope::Shared) && y->buffer->scope == Scope::Shared;
  bool typed = x->buffer->elem == row->operand && y->buffer->elem == row->operand &&
               acc->buffer->elem == row->acc;
  if (!shared || !typed)
    fail(loop, "its operands must be tiles of the row's types in shared memory");
  bool runs = in_registers ? a.of[2] == 0 && a.of[4] == 0 : a.of[4] == 1;
  if (!runs || a.of[3] != 0 || a.of[1] != 0 || b.of[2] != 0 || b.of[0] != 0) {
    fail(loop, "its operands are not those of a matrix product");
  }
  bool transposed = b.of[3] == 1;
  if (!transposed && b.of[4] != 1) fail(loop, "the second operand runs along neither of its axes");
  if (transposed && row->operand_bits() != 16) {
    fail(loop, "only elements of 16 bits are transposed on their way to registers");
  }
  return {row,
          loops.all[0]->var,
          loops.all[1]->var,
          *as_int(loops.all[0]->extent),
          *as_int(loops.all[1]->extent),
          acc->buffer,
          c.start,
          c.of[0],
          c.of[1],
          {x->buffer, a.start, a.of[0], a.of[2], a.of[4]},
          {y->buffer, b.start, b.of[1], b.of[4], b.of[3]}};
}

std::vector<std::string> mma_lines(const MmaNest& nest, CudaExpr& expr) {
  std::string lane = expr.fresh("lane"), a = expr.fresh("a"), b = expr.fresh("b");
  std::string f = expr.fresh("f"), g = expr.fresh("g");
  auto loop = [](const std::string& var, int64_t extent) {
    return fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) ", var, extent);
  };
  // The place of the row of 16 bytes that each lane gives to ldmatrix.
  const int half = nest.row->k / 2;
  auto fragment = [&](const MmaOperand& o, const std::string& var, const std::string& at) {
    return fmt::format("{} + ({} + {} * {} + {})", expr.buffers.at(o.buffer.get()),
                       expr.print(o.start), var, o.fragment, at);
  };
  std::string a_row = fmt::format("{0} % 16 * {1} + {0} / 16 * {2}", lane, nest.a.row, half);
  bool transposed = nest.b.column == 1;
  std::string b_row =
      transposed ? fmt::format("{} % 16 * {}", lane, nest.b.row)
                 : fmt::format("{0} % 8 * {1} + {0} / 8 % 2 * {2}", lane, nest.b.column, half);
  const bool a_loaded = nest.a.buffer->scope == Scope::Shared;
  std::string a_array = a_loaded ? fmt::format("{}[{}]", a, f)
                                 : fmt::format("*(unsigned(*)[4])({} + ({} + {} * {}))",
                                               expr.buffers.at(nest.a.buffer.get()),
                                               expr.print(nest.a.start), f, nest.a.fragment);
  std::string sums = fmt::format("*({}(*)[4])({} + ({} + {} * {} + {} * {}))",
                                 cuda_type(nest.row->acc), expr.buffers.at(nest.sums.get()),
                                 expr.print(nest.sums_start), f, nest.sums_a, g, nest.sums_b);
  const std::string unroll = "#pragma unroll";
  std::vector<std::string> lines = {fmt::format("const int {} = threadIdx.x % 32;", lane)};
  if (a_loaded) {
    lines.push_back(fmt::format("unsigned {}[{}][4];", a, nest.a_fragments));
    lines.push_back(unroll);
    lines.push_back(loop(f, nest.a_fragments) +
                    fmt::format("tw_ldmatrix_x4({}[{}], {});", a, f, fragment(nest.a, f, a_row)));
  }
  const std::vector<std::string> products = {
      fmt::format("unsigned {}[{}][2];", b, nest.b_fragments),
      unroll,
      loop(g, nest.b_fragments) + fmt::format("tw_ldmatrix_x2{}({}[{}], {});",
                                              transposed ? "_trans" : "", b, g,
                                              fragment(nest.b, g, b_row)),
      unroll,
      loop(f, nest.a_fragments) + "{",
      "  " + unroll,
      "  " + loop(g, nest.b_fragments) + "{",
      fmt::format("    tw_mma_{}({}, {}, {}[{}], {});", nest.row->name, sums, a_array, b, g, sums),
      "  }",
      "}"};
  lines.insert(lines.end(), products.begin(), products.end());
  return lines;
}

}  // namespace tilewright
