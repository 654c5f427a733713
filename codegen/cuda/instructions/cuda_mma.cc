#include "codegen/cuda/instructions/cuda_mma.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_product_nest.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/arith/index_map.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// An index as a sum of the loops' variables times constants.
struct Strides {
  Expr start;
  std::vector<int64_t> of;  // one per loop
};

// Elements of k may lie 16 bytes at a time, so only the first two steps have to be equal.
Strides strides_of(const LoopNest& nest, const Expr& index, Analyzer& known) {
  const NestIndex places(nest.loops, known);
  Strides s{places.first(index), {}};
  for (const ForNode* l : nest.loops) {
    const auto step = places.step(index, l->var, std::min<int64_t>(*as_int(l->extent) - 1, 2));
    if (!step) {
      fail_mma(*nest.loops[0],
               "an index does not run in equal steps along '" + l->var.name() + "'");
    }
    s.of.push_back(*step);
  }
  return s;
}

// Elements in a row of 16 bytes.
int piece(const Instruction& row) { return 128 / row.operand_bits(); }

// The distance to the next 16 bytes of an operand that runs along k. Within 16 bytes its elements
// are neighbours.
int64_t next_piece(const LoopNest& nest, const Instruction& row, const Expr& index,
                   Analyzer& known) {
  if (row.k <= piece(row)) return piece(row);
  const Var& k = nest.loops.back()->var;
  const NestIndex places(nest.loops, known);
  const auto step = places.moved(index, k, piece(row));
  const IndexMap lies{{k}, {known.simplify(places.at(index, k, k) - places.first(index))}},
      wanted{{k}, {floordiv(k, piece(row)) * step.value_or(0) + floormod(k, piece(row))}};
  if (!step || !same_digits(lies, wanted, {row.k})) {
    fail_mma(*nest.loops[0], "an operand does not run along its terms 16 bytes at a time");
  }
  return *step;
}

}  // namespace

void fail_mma(const ForNode& loop, const std::string& reason) {
  const Instruction* row = find_instruction(mma_mark(loop));
  throw LoweringError(fmt::format("loop '{}' is marked as {} '{}': {}", loop.var.name(),
                                  row && row->is_wgmma() ? "wgmma" : "mma", mma_mark(loop),
                                  reason));
}

LoopNest nest_of_product(const ForNode& loop, const std::array<int64_t, 3>& sizes, size_t most,
                         const std::string& wanted) {
  LoopNest nest = loop_nest(loop);
  auto* store = nest.body.as<StoreNode>();
  const size_t count = nest.loops.size();
  if (count < sizes.size() || count > most || !store || store->predicate.defined()) {
    fail_mma(loop, wanted);
  }
  const size_t outer = count - sizes.size();
  for (size_t l = 0; l < count; ++l) {
    auto extent = as_int(nest.loops[l]->extent);
    const bool fits =
        extent && is_int(nest.loops[l]->min, 0) && (l < outer || *extent == sizes[l - outer]);
    if (!fits) fail_mma(loop, fmt::format("loop '{}' has another size", nest.loops[l]->var.name()));
  }
  return nest;
}

namespace {

// Assigns each loop over fragments to the operand that moves along it.
void take_fragments(const LoopNest& loops, const Strides& a, const Strides& b, const Strides& sums,
                    MmaNest& nest) {
  bool seen_a = false, seen_b = false;
  for (size_t l = 0; l + 3 < loops.loops.size(); ++l) {
    bool of_a = a.of[l] != 0, of_b = b.of[l] != 0;
    bool& seen = of_a ? seen_a : seen_b;
    if (of_a == of_b || seen) {
      fail_mma(*loops.loops[0], "its operands are not those of a matrix product");
    }
    seen = true;
    int64_t extent = *as_int(loops.loops[l]->extent);
    (of_a ? nest.a_fragments : nest.b_fragments) = extent;
    (of_a ? nest.sums_a : nest.sums_b) = sums.of[l];
    (of_a ? nest.a : nest.b).fragment = of_a ? a.of[l] : b.of[l];
  }
}

// Requires that one of an operand's strides within an instruction is 1.
void require_neighbours(const ForNode& loop, const Instruction& row, int64_t along_k,
                        int64_t across) {
  if (along_k == 1) return;
  if (across != 1) fail_mma(loop, "an operand runs along neither of its axes");
  if (row.operand_bits() != 16) {
    fail_mma(loop, "only elements of 16 bits are transposed on their way to registers");
  }
}

}  // namespace

bool is_printed(const Instruction& row) {
  auto loads = [](int registers) { return registers == 1 || registers == 2 || registers == 4; };
  return row.computes != kCountsXor && loads(row.a_registers()) && loads(2 * row.b_registers());
}

MmaNest match_mma(const ForNode& loop, Analyzer& known) {
  const Instruction* row = find_instruction(mma_mark(loop));
  if (!row || row->is_wgmma()) fail_mma(loop, "there is no such row");
  if (row->is_sparse()) {
    MmaNest nest = match_mma_as(dense_nest_of(loop, *row, known), *row, known);
    nest.sparse = sparse_words_of(loop, *row, known);
    return nest;
  }
  if (!is_printed(*row)) {
    fail_mma(
        loop,
        "only rows that sum products (of single bits: by 'and'), with one, two or four registers "
        "an operand, are printed");
  }
  if (std::optional<MmaNest> gathered = match_gathered_mma(loop, *row, known)) return *gathered;
  return match_mma_as(loop, *row, known);
}

MmaNest match_mma_as(const ForNode& loop, const Instruction& row, Analyzer& known) {
  const LoopNest loops = nest_of_product(loop, {row.m, row.n, row.k}, 5,
                                         "it must be three to five loops around one store");
  const StoreNode* store = loops.body.as<StoreNode>();
  std::optional<ProductSum> p = product_sum(store);
  if (!p) fail_mma(loop, "its store must add a product of two elements");
  Strides a = strides_of(loops, p->a->indices[0], known);
  Strides b = strides_of(loops, p->b->indices[0], known);
  const size_t m = loops.loops.size() - 3, n = m + 1, k = m + 2;
  const bool in_registers = p->in_registers();
  if (in_registers ? !is_private(p->a->buffer) : a.of[m] == 0) {
    std::swap(a, b);
    std::swap(p->a, p->b);
  }
  Strides c = strides_of(loops, store->indices[0], known);
  if (!p->fits(row)) {
    fail_mma(loop, "its operands must be tiles of the row's types in shared memory");
  }
  bool by_lanes = !in_registers || (a.of[m] == 0 && a.of[k] == 0);
  if (!by_lanes || a.of[n] != 0 || b.of[m] != 0) {
    fail_mma(loop, "its operands are not those of a matrix product");
  }
  if (!in_registers) require_neighbours(loop, row, a.of[k], a.of[m]);
  require_neighbours(loop, row, b.of[k], b.of[n]);
  MmaNest nest;
  nest.row = &row;
  nest.sums = p->sums->buffer;
  nest.sums_start = c.start;
  nest.a = {p->a->buffer, a.start, 0, a.of[m], a.of[k]};
  nest.b = {p->b->buffer, b.start, 0, b.of[k], b.of[n]};
  for (auto [operand, read, along] :
       {std::tuple{&nest.a, p->a, a.of[k]}, {&nest.b, p->b, b.of[k]}}) {
    const bool loaded = operand->buffer->scope == Scope::Shared && along == 1;
    if (loaded) operand->piece = next_piece(loops, row, read->indices[0], known);
  }
  take_fragments(loops, a, b, c, nest);
  return nest;
}

std::string mma_loop(const std::string& var, int64_t extent) {
  return fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) ", var, extent);
}

namespace {

// The accumulators of the product of fragments `f` and `g`.
std::string mma_sums(const MmaNest& nest, const std::string& f, const std::string& g,
                     CudaExpr& expr) {
  return fmt::format("*({}(*)[{}])({} + ({} + {} * {} + {} * {}))", cuda_type(nest.row->acc),
                     nest.row->acc_registers(), expr.buffers.at(nest.sums.get()),
                     expr.print(nest.sums_start), f, nest.sums_a, g, nest.sums_b);
}

// A pointer to the row of 16 bytes that a lane gives to ldmatrix, `at` elements from the start of
// fragment `var`.
std::string row_pointer(const MmaOperand& o, const std::string& var, const std::string& at,
                        CudaExpr& expr) {
  const std::string& name = expr.buffers.at(o.buffer.get());
  std::string start = expr.print(o.start);
  if (expr.keeps_place(o.buffer, o.fragment)) {
    return fmt::format("{} + ({} + {} * {})", name,
                       expr.place(o.buffer, fmt::format("{} + {}", start, at)), var, o.fragment);
  }
  return fmt::format(
      "{} + {}", name,
      expr.place(o.buffer, fmt::format("({} + {} * {} + {})", start, var, o.fragment, at)));
}

// The distance of the row of 16 bytes that a lane gives to `ldmatrix` from the start of a fragment.
// Eight lanes give the rows of a register's matrix, further ones those of the next register; lanes
// behind all of them begin anew. `f` has k as its columns. `across` and `along` are the distances of
// neighbours of a column and of a row.
Expr row_of_lane(const Fragment& f, const Instruction& row, const Expr& lane, int64_t across,
                 int64_t along, int64_t next) {
  const int registers = f.elements() / row.packed();
  const Expr r = floormod(floordiv(lane, kCoreRows), registers), line = floormod(lane, kCoreRows);
  const std::vector<Expr> first =
      f.place().inverse({f.rows(), f.columns()}).apply({0, r * row.packed()});
  Analyzer known;
  known.bind(lane, 0, kWarp);
  return known.simplify(along == 1
                            ? (first[0] + line) * across + floordiv(first[1], piece(row)) * next
                            : (first[1] + line) * along + first[0]);
}

// Loads A's fragments.
std::string load_a(const MmaNest& nest, const std::string& a, const std::string& f,
                   const Expr& lane, CudaExpr& expr) {
  const MmaOperand& o = nest.a;
  const Expr at = row_of_lane(nest.row->a(), *nest.row, lane, o.row, o.column, o.piece);
  return fmt::format("tw_ldmatrix_x{}{}({}[{}], {});", nest.row->a_registers(),
                     o.column == 1 ? "" : "_trans", a, f, row_pointer(o, f, expr.print(at), expr));
}

// Brings fragment `g` of B to registers `b`[g], or two fragments at once with `pairs`.
std::string load_b(const MmaNest& nest, bool pairs, const std::string& b, const std::string& g,
                   const Expr& lane, CudaExpr& expr) {
  const int count = nest.row->b_registers();
  MmaOperand o = nest.b;
  Expr at = 0;  // a gathered B begins with the lane's row
  if (!nest.gather.row.defined()) {
    at = row_of_lane(nest.row->b().transposed(), *nest.row, lane, o.column, o.row, o.piece);
  }
  const char* suffix = o.row == 1 ? "" : "_trans";
  if (!pairs) {
    return fmt::format("tw_ldmatrix_x{}{}({}[{}], {});", count, suffix, b, g,
                       row_pointer(o, g, expr.print(at), expr));
  }
  at = at + floordiv(lane, kCoreRows * count) * o.fragment;
  o.fragment *= 2;
  return fmt::format("tw_ldmatrix_x{0}{1}(*(unsigned(*)[{0}]){2}[2 * {3}], {4});", 2 * count,
                     suffix, b, g, row_pointer(o, g, expr.print(at), expr));
}

// Counts distances in elements of the buffer's array, which are bytes where elements share them.
// Elements of fewer than 8 bits run along k, so that two rows of 16 bytes are whole bytes apart.
void count_in_array(MmaOperand& o, const CudaExpr& expr) {
  const int64_t shared = std::max(1, 8 / bits_of(o.buffer->elem));
  if (shared == 1) return;
  o.start = expr.place_of(o.buffer, o.start);
  for (int64_t* distance : {&o.fragment, &o.row, &o.column, &o.piece}) {
    if (*distance > 1) *distance /= shared;
  }
}

// The lines before a nest whose B is gathered. They compute the start of the lane's row, which is
// the start of B from then on.
std::vector<std::string> gather_lines(MmaNest& nest, const std::string& lane, CudaExpr& expr) {
  std::vector<std::string> lines;
  if (!nest.gather.row.defined()) return lines;
  std::string row = expr.bind(nest.gather.row, "row", nest.row->k);
  lines.push_back(fmt::format("const int {} = {} % {};", row, lane, 8 * nest.row->b_registers()));
  std::string index = expr.print_bare(nest.gather.index);
  nest.b.start = Var("at");
  lines.push_back(fmt::format("const int {} = {};", expr.bind(nest.b.start, "at"), index));
  return lines;
}

// Registers of A that are not loaded: fragment `f` of the instruction number `step` of a nest.
std::string held_a(const MmaNest& nest, const std::string& f, int step, CudaExpr& expr) {
  const Expr start =
      step == 0 ? nest.a.start : simplify(nest.a.start + Expr(step * nest.sparse.next));
  return fmt::format("*(unsigned(*)[{}])({} + ({} + {} * {}))", nest.row->a_registers(),
                     expr.buffers.at(nest.a.buffer.get()), expr.print(start), f, nest.a.fragment);
}

// Appends the loops that load B, and those over both kinds of fragments around a product.
void append_product(const MmaNest& nest, const std::string& f, const std::string& g,
                    const std::string& load, const std::string& product,
                    std::vector<std::string>& lines) {
  const std::string unroll = "#pragma unroll";
  for (const std::string& line : {unroll, load, unroll, mma_loop(f, nest.a_fragments) + "{",
                                  "  " + unroll, "  " + mma_loop(g, nest.b_fragments) + "{",
                                  "    " + product, std::string("  }"), std::string("}")}) {
    lines.push_back(line);
  }
}

}  // namespace

std::vector<std::string> mma_lines(const MmaNest& given, CudaExpr& expr) {
  MmaNest nest = given;
  count_in_array(nest.a, expr);
  count_in_array(nest.b, expr);
  const Instruction& row = *nest.row;
  const Var in_warp("lane");
  const std::string lane = expr.bind(in_warp, "lane", kWarp),
                    a = row.is_sparse() ? "" : expr.fresh("a"), b = expr.fresh("b"),
                    f = expr.fresh("f"), g = expr.fresh("g"),
                    e = row.is_sparse() ? expr.fresh("e") : "";
  const std::string sums = mma_sums(nest, f, g, expr);
  std::vector<std::string> lines = {fmt::format("const int {} = threadIdx.x % 32;", lane)};
  for (const std::string& line : gather_lines(nest, lane, expr)) lines.push_back(line);
  const bool a_loaded = nest.a.buffer->scope == Scope::Shared;
  if (a_loaded) {
    lines.push_back(fmt::format("unsigned {}[{}][{}];", a, nest.a_fragments, row.a_registers()));
    lines.emplace_back("#pragma unroll");
    lines.push_back(mma_loop(f, nest.a_fragments) + load_a(nest, a, f, in_warp, expr));
  }
  lines.push_back(fmt::format("unsigned {}{}[{}][{}];",
                              row.is_sparse() ? fmt::format("{}[{}], ", e, nest.a_fragments) : "",
                              b, nest.b_fragments, row.b_registers()));
  if (row.is_sparse()) {
    lines.emplace_back("#pragma unroll");
    lines.push_back(fmt::format("{}{}[{}] = {};", mma_loop(f, nest.a_fragments), e, f,
                                sparse_word(nest.sparse, {{f, nest.sparse.fragment}}, expr)));
  }
  const bool pairs = !row.is_sparse() && nest.b_fragments % 2 == 0;
  for (int s = 0; s < nest.steps(); ++s) {
    MmaNest step = nest;
    if (row.is_sparse()) step.b.start = nest.b.start + Expr(s * row.k);
    const std::string name = fmt::format("tw_mma_{}{}", row.name,
                                         row.is_sparse() ? fmt::format("<{}>", s) : ""),
                      metadata = row.is_sparse() ? fmt::format(", {}[{}]", e, f) : "",
                      of_a = a_loaded ? fmt::format("{}[{}]", a, f) : held_a(nest, f, s, expr);
    append_product(nest, f, g,
                   mma_loop(g, pairs ? nest.b_fragments / 2 : nest.b_fragments) +
                       load_b(step, pairs, b, g, in_warp, expr),
                   fmt::format("{}({}, {}, {}[{}], {}{});", name, sums, of_a, b, g, sums, metadata),
                   lines);
  }
  return lines;
}

}  // namespace tilewright
