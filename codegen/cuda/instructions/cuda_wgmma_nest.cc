#include "codegen/cuda/instructions/cuda_wgmma_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_product_nest.h"
#include "codegen/cuda/instructions/cuda_wgmma_flight.h"
#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"
#include "ir/predicates.h"
#include "ir/visitor.h"
#include "kernel/prelude/cuda_wgmma.h"

namespace tilewright {
namespace {

constexpr int64_t kWarps = kWarpgroup / kWarp;

class Matcher {
 public:
  Matcher(const ForNode& loop, const Expr& thread, Analyzer& known)
      : loop_(loop), thread_(thread), known_(known), scope_(known), group_("g"), warp_("q"),
        lane_("l") {
    nest_.row = wgmma_mark(loop);
  }

  WgmmaNest match() {
    take_loops();
    known_.bind(group_, 0, Expr(kMostGroups));
    known_.bind(warp_, 0, Expr(kWarps));
    known_.bind(lane_, 0, Expr(kWarp));
    std::optional<ProductSum> p = product_sum(store_);
    if (!p) fail("its store must add a product of two elements");
    const bool in_registers = p->in_registers();
    if (in_registers ? !is_private(p->a->buffer) : !uses_var(p->a->indices[0], row_loop()->var)) {
      std::swap(p->a, p->b);
    }
    if (!p->fits(*nest_.row) || !is_private(p->sums->buffer)) {
      fail(
          "its operands must be tiles of the row's types in shared memory (A also fragments in "
          "registers), its sums private");
    }
    take_sums(*p->sums);
    nest_.a = in_registers ? registers(*p->a) : operand(*p->a, 'A');
    nest_.b = operand(*p->b, 'B');
    return nest_;
  }

 private:
  static constexpr int64_t kMostGroups = 8;  // warpgroups of a block

  [[noreturn]] void fail(const std::string& reason) const { fail_mma(loop_, reason); }

  const ForNode* row_loop() const { return loops_[loops_.size() - 3]; }
  const ForNode* column_loop() const { return loops_[loops_.size() - 2]; }
  const ForNode* term_loop() const { return loops_.back(); }
  size_t outer() const { return loops_.size() - 3; }

  void take_loops() {
    constexpr const char* kWanted =
        "it must be three to six loops around one store, in one over warps";
    const Instruction& row = *nest_.row;
    const LoopNest inside = nest_of_product(loop_, {kWarpRows, row.n, row.k}, 6, kWanted);
    if (!thread_.defined()) fail(kWanted);
    loops_ = inside.loops;
    store_ = inside.body.as<StoreNode>();
  }

  // The index less that of the warpgroup's first element, which goes to `start` in terms of the
  // thread.
  Expr from_start(const Expr& index, Expr& start) {
    VarMap parts = {{thread_.get(), group_ * Expr(kWarpgroup) + warp_ * Expr(kWarp) + lane_}};
    const Expr whole = substitute(index, parts);
    VarMap first = {{warp_.get(), 0}, {lane_.get(), 0}};
    for (const ForNode* l : loops_) first[l->var.get()] = 0;
    const Expr at_start = known_.simplify(substitute(whole, first));
    start = known_.simplify(
        substitute(at_start, VarMap{{group_.get(), floordiv(thread_, Expr(kWarpgroup))}}));
    KnowledgeScope inside(known_);
    for (const ForNode* l : loops_) known_.bind(l->var, l->min, l->extent);
    return known_.simplify(whole - at_start);
  }

  // `offset` with values for some variables and 0 for the rest.
  Expr with(const Expr& offset, VarMap values) const {
    for (const ForNode* l : loops_) values.try_emplace(l->var.get(), 0);
    values.try_emplace(warp_.get(), 0);
    values.try_emplace(lane_.get(), 0);
    return substitute(offset, values);
  }

  int64_t at(const Expr& offset, VarMap values, const std::string& what) {
    auto distance = as_int(known_.simplify(with(offset, std::move(values))));
    if (!distance) fail(fmt::format("where {} lies depends on more than its loops", what));
    return *distance;
  }

  // The distance between iterations of an outer loop.
  int64_t step_of(const Expr& offset, size_t l, const std::string& what) {
    const ExprNode* var = loops_[l]->var.get();
    const int64_t one = at(offset, {{var, 1}}, what), last = *as_int(loops_[l]->extent) - 1;
    if (at(offset, {{var, Expr(last)}}, what) != last * one) {
      fail(fmt::format("{} does not run in equal steps along '{}'", what, loops_[l]->var.name()));
    }
    return one;
  }

  void take_sums(const LoadNode& acc) {
    const Expr offset = from_start(acc.indices[0], nest_.sums_start);
    const Fragment& d = accumulators(kWarpRows);
    const Var j = column_loop()->var;
    const IndexMap held{{j}, {known_.simplify(with(offset, {{j.get(), j}}))}},
        wanted{{j}, {floordiv(j, d.columns()) * d.elements()}};
    if (!same_digits(held, wanted, {nest_.row->n})) {
      fail("its sums must lie by columns of 8, lane and register");
    }
    nest_.sums = acc.buffer;
    for (size_t l = 0; l < outer(); ++l) sums_steps_.push_back(step_of(offset, l, "a sum"));
  }

  // The fragments that this lane holds; those of an instruction are packed registers behind one
  // another.
  WgmmaOperand registers(const LoadNode& read) {
    WgmmaOperand result{read.buffer, {}, {}};
    const std::string what = "operand A";
    const Expr offset = from_start(read.indices[0], result.start);
    for (const ForNode* l : {row_loop(), column_loop(), term_loop()}) {
      if (uses_var(offset, l->var)) {
        fail(
            fmt::format("operand A in registers must not depend on '{}': its last two dimensions "
                        "are the lane and the place among the lane's elements",
                        l->var.name()));
      }
    }
    take_steps(offset, result, true, what);
    const int64_t packed = nest_.row->packed();
    const bool whole = result.step % packed == 0 && result.fragment % packed == 0 &&
                       is_int(known_.simplify(floormod(result.start, Expr(packed))), 0);
    if (!whole) fail("operand A does not lie in whole registers");
    return result;
  }

  WgmmaOperand operand(const LoadNode& read, char name) {
    WgmmaOperand result{read.buffer, {}, {}};
    const std::string what = fmt::format("operand {}", name);
    const Expr offset = from_start(read.indices[0], result.start);
    const bool is_a = name == 'A';
    const int bits = nest_.row->operand_bits();
    const IndexMap place = IndexMap::make(2, [&](const std::vector<Var>& x) {
      VarMap values = {{term_loop()->var.get(), x[1]}};
      if (is_a) {
        values[row_loop()->var.get()] = floormod(x[0], kWarpRows);
        values[warp_.get()] = floordiv(x[0], kWarpRows);
      } else {
        values[column_loop()->var.get()] = x[0];
      }
      return std::vector<Expr>{simplify(with(offset, values)) * (bits / 8)};
    });
    require_sum(offset, is_a, what);
    const int64_t span = read.buffer->swizzled_row * bits / 8;
    auto swizzle = swizzle_of_span(span == 0 ? span_of(WgmmaSwizzle::None) : span);
    if (!swizzle) fail(fmt::format("{} has swizzled rows of {} bytes, more than 128", what, span));
    const int rows = is_a ? kWarpgroupRows : nest_.row->n;
    auto layout = derive_wgmma_layout(bits, *swizzle, place, rows, nest_.row->k);
    if (!layout) {
      fail(fmt::format(
          "'{}' lies as no matrix descriptor says: rows of 32, 64 or 128 swizzled bytes "
          "of terms, or of columns where elements have 16 bits, or 8 x 16 bytes "
          "together",
          read.buffer->name));
    }
    result.layout = *layout;
    take_steps(offset, result, is_a, what);
    return result;
  }

  // Row (or column), k and outer loops must each add a distance of their own.
  void require_sum(const Expr& offset, bool is_a, const std::string& what) {
    auto only = [&](const ForNode* l) { return with(offset, {{l->var.get(), l->var}}); };
    Expr rest = offset - only(term_loop());
    rest = rest -
           (is_a ? with(offset, {{row_loop()->var.get(), row_loop()->var}, {warp_.get(), warp_}})
                 : only(column_loop()));
    for (size_t l = 0; l < outer(); ++l) rest = rest - only(loops_[l]);
    KnowledgeScope inside(known_);
    for (const ForNode* l : loops_) known_.bind(l->var, l->min, l->extent);
    if (!is_int(known_.simplify(rest), 0)) {
      fail(fmt::format("{} is not read in equal steps by the four warps", what));
    }
  }

  // Sorts the outer loops: one or two run along k, one over further rows of A.
  void take_steps(const Expr& offset, WgmmaOperand& result, bool is_a, const std::string& what) {
    const auto along_k = std::count(sums_steps_.begin(), sums_steps_.end(), 0);
    if (along_k > 2) fail("at most two of its loops may run along the terms");
    bool is_span = along_k == 2;
    for (size_t l = 0; l < outer(); ++l) {
      const int64_t step = step_of(offset, l, what), extent = *as_int(loops_[l]->extent);
      if (sums_steps_[l] == 0) {
        (is_span ? result.span : result.step) = step;
        (is_span ? nest_.spans : nest_.steps) = extent;
        is_span = false;
      } else if (is_a) {
        result.fragment = step;
        nest_.fragments = extent;
        nest_.sums_fragment = sums_steps_[l];
      } else if (step != 0) {
        fail("its operands are not those of a matrix product");
      }
    }
  }

  const ForNode& loop_;
  const Expr& thread_;
  Analyzer& known_;
  KnowledgeScope scope_;
  Var group_, warp_, lane_;
  std::vector<const ForNode*> loops_;
  const StoreNode* store_ = nullptr;
  std::vector<int64_t> sums_steps_;
  WgmmaNest nest_{};
};

// The names of the loops over instructions.
struct Counters {
  std::string span, step, fragment;
};

// "tw_wgmma_operand<128>(A + …, 16, 1024, …)", or the registers of an instruction, `further`
// elements on.
std::string operand_text(const WgmmaNest& nest, const WgmmaOperand& o, int64_t further,
                         const Counters& at_loops, CudaExpr& expr) {
  const std::string& array = expr.buffers.at(o.buffer.get());
  const int64_t bits = bits_of(o.buffer->elem);
  auto ahead = [&](int64_t unit) {
    std::string at = std::to_string(further * bits / unit);
    for (const auto& [index, step] : {std::pair{at_loops.span, o.span},
                                      {at_loops.step, o.step},
                                      {at_loops.fragment, o.fragment}}) {
      if (step != 0) at += fmt::format(" + {} * {}", index, step * bits / unit);
    }
    return at;
  };
  if (is_private(o.buffer)) {
    return fmt::format("*(unsigned(*)[{}])({} + ({} + {}))", nest.row->a_registers(), array,
                       expr.print(o.start), ahead(bits));
  }
  const WgmmaLayout& layout = o.layout;
  const int span = layout.swizzle == WgmmaSwizzle::None ? 0 : span_of(layout.swizzle);
  return fmt::format("tw_wgmma_operand<{}>({} + ({}), {}, {}, {})", span, array,
                     expr.print(o.start), layout.leading, layout.stride, ahead(8));
}

// The registers of a fragment's accumulators.
std::string sums_text(const WgmmaNest& nest, const std::string& f, CudaExpr& expr) {
  return fmt::format("*({}(*)[{}])({} + ({} + {} * {}))", wgmma_sum_type(*nest.row),
                     nest.row->sum_registers(), expr.buffers.at(nest.sums.get()),
                     expr.print(nest.sums_start), f, nest.sums_fragment);
}

// The instruction of a step and a fragment that takes the metadata of these lanes.
std::vector<std::string> instruction_lines(const WgmmaNest& nest, int selector,
                                           const Counters& loops, CudaExpr& expr) {
  const Instruction& row = *nest.row;
  std::vector<std::string> ways;
  if (nest.row->is_sparse()) ways.push_back(std::to_string(selector));
  if (row.may_be_transposed()) {
    for (const WgmmaOperand* o : {&nest.a, &nest.b}) {
      ways.emplace_back(o->layout.along_k ? "0" : "1");
    }
  }
  std::vector<std::string> lines = {
      fmt::format("tw_wgmma_{}{}({},", row.name,
                  ways.empty() ? "" : fmt::format("<{}>", fmt::join(ways, ", ")),
                  sums_text(nest, loops.fragment, expr)),
      fmt::format("    {},", operand_text(nest, nest.a, selector * nest.sparse.next, loops, expr))};
  std::string last = operand_text(nest, nest.b, int64_t{selector} * row.k, loops, expr);
  if (nest.row->is_sparse()) {
    lines.push_back(fmt::format("    {},", last));
    last =
        sparse_word(nest.sparse,
                    {{loops.step, nest.sparse.step}, {loops.fragment, nest.sparse.fragment}}, expr);
  }
  lines.push_back(fmt::format("    {}, 1);", last));
  return lines;
}

}  // namespace

bool WgmmaNest::a_in_registers() const { return is_private(a.buffer); }

bool leaves_wgmma_pending(const ForNode& loop) {
  return loop.annotations.count(kWgmmaPendingKey) != 0;
}

WgmmaNest match_wgmma(const ForNode& loop, const Expr& thread, Analyzer& known) {
  const Instruction& row = *wgmma_mark(loop);
  if (!row.is_sparse()) return Matcher(loop, thread, known).match();
  const ForNode whole = dense_nest_of(loop, row, known);
  WgmmaNest nest = Matcher(whole, thread, known).match();
  nest.sparse = sparse_words_of(loop, row, known);
  return nest;
}

std::vector<std::string> wgmma_issue_lines(const WgmmaNest& nest, CudaExpr& expr) {
  const bool has_spans = nest.spans > 1;
  const Counters loops{has_spans ? expr.fresh("c") : "", expr.fresh("s"), expr.fresh("f")};
  std::vector<std::string> lines = {"tw_wgmma_fence();"};
  std::string indent;
  auto open = [&](const std::string& var, int64_t extent) {
    lines.push_back(indent + "#pragma unroll");
    lines.push_back(indent + mma_loop(var, extent) + "{");
    indent += "  ";
  };
  if (has_spans) open(loops.span, nest.spans);
  open(loops.step, nest.steps);
  open(loops.fragment, nest.fragments);
  for (int selector = 0; selector < nest.in_step(); ++selector) {
    for (const std::string& line : instruction_lines(nest, selector, loops, expr)) {
      lines.push_back(indent + line);
    }
  }
  while (!indent.empty()) {
    indent.resize(indent.size() - 2);
    lines.push_back(indent + "}");
  }
  lines.emplace_back("tw_wgmma_commit();");
  return lines;
}

std::vector<std::string> wgmma_lines(const WgmmaNest& nest, int pending, CudaExpr& expr) {
  std::vector<std::string> lines = wgmma_issue_lines(nest, expr);
  if (pending > 0) {
    lines.push_back(fmt::format("tw_wgmma_wait<{}>();", pending));
  } else {
    for (const std::string& line : wgmma_end_lines(nest, expr)) lines.push_back(line);
  }
  return lines;
}

std::string wgmma_operand_line(const char* function, const Buffer& operand, CudaExpr& expr) {
  const int64_t bits = *num_elements(operand) * bits_of(operand->elem);
  return fmt::format("{}(*(unsigned(*)[{}]){});", function, bits / 32,
                     expr.buffers.at(operand.get()));
}

std::vector<std::string> wgmma_hold_lines(const WgmmaNest& nest, CudaExpr& expr) {
  const std::string f = expr.fresh("f");
  std::vector<std::string> lines = {
      "#pragma unroll",
      mma_loop(f, nest.fragments) + fmt::format("tw_wgmma_hold({});", sums_text(nest, f, expr))};
  // The instructions read these registers until here; compilers take an operand as read when it is
  // given.
  if (nest.a_in_registers()) {
    lines.push_back(wgmma_operand_line("tw_wgmma_hold", nest.a.buffer, expr));
  }
  return lines;
}

std::vector<std::string> wgmma_end_lines(const WgmmaNest& nest, CudaExpr& expr) {
  std::vector<std::string> lines = {"tw_wgmma_wait<0>();"};
  for (const std::string& line : wgmma_hold_lines(nest, expr)) lines.push_back(line);
  return lines;
}

}  // namespace tilewright
