// Weights come from memory, or from a slow cache. Processors fetch ahead of a stream on their own, but begin anew at
// each page, where the loads of a kernel then wait. A panel that many rows of a product read waits in its first round
// alone, and that round takes as long as memory does: so all rounds fetch the next panel.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/ceil_div.h"
#include "codegen/c/c_expr.h"
#include "codegen/codegen.h"
#include "ir/arith/linear.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kLineBytes = 64, kCacheLineBits = 8 * kLineBytes;

// The loads of a loop's own statements, without those of loops in it.
class OwnLoads : public Visitor {
 public:
  explicit OwnLoads(const Stmt& body) { visit(body); }
  std::vector<const LoadNode*> loads;

 protected:
  void visit_for(const ForNode&) override {}
  void visit_load(const LoadNode& n) override {
    loads.push_back(&n);
    Visitor::visit_load(n);
  }
};

// The part of a weight that loops read again and again, before they go on to the next part.
struct Panel {
  std::vector<const ForNode*> rounds;  // the loops that read it again, from the outermost in
  int64_t next = 0;  // elements from a place to the same one of the next panel; 0: there is none
};

// The panel around the innermost loop, which reads a weight from `start` on.
Panel panel_of(const Expr& start, const std::vector<const ForNode*>& loops) {
  Panel panel;
  std::vector<const ForNode*> within;  // loops over the panel's elements
  for (size_t n = loops.size(); n-- > 0 && loops[n]->for_kind != ForKind::Parallel;) {
    const bool reads = uses_var(start, loops[n]->var);
    if (reads && !panel.rounds.empty()) break;
    (reads ? within : panel.rounds).push_back(loops[n]);
  }
  std::ranges::reverse(panel.rounds);
  for (const arith::Term& t : arith::Linear::of(start).terms) {
    const bool inside =
        std::ranges::any_of(within, [&](const ForNode* l) { return uses_var(t.atom, l->var); });
    if (!inside && t.coef > 0 && (panel.next == 0 || t.coef < panel.next)) panel.next = t.coef;
  }
  return panel;
}

// The first of `lines` lines that round `rounds` fetches, and how many it fetches: all rounds together fetch each.
std::pair<Expr, int64_t> share_of(const std::vector<const ForNode*>& rounds, int64_t lines) {
  Expr round(0);
  int64_t count = 1;  // of rounds; 0: known only at launch
  for (const ForNode* loop : rounds) {
    const auto extent = as_int(loop->extent);
    round = round * loop->extent + (loop->var - loop->min);
    count *= extent.value_or(0);
  }
  if (count == 0) return {floormod(round, lines), 1};
  return {floordiv(round * lines, count), ceil_div(lines, count)};
}

// Neighbouring lines: the first one, and how many there are.
std::vector<std::pair<int64_t, int64_t>> runs_of(const std::set<int64_t>& lines) {
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (int64_t line : lines) {
    if (runs.empty() || line != runs.back().first + runs.back().second) runs.emplace_back(line, 0);
    ++runs.back().second;
  }
  return runs;
}

}  // namespace

// The lines of weights that an iteration reads, in bytes from a place: those of its own loads.
std::vector<CExpr::WeightLines> CExpr::weights_read(const ForNode& loop) {
  std::map<std::pair<const BufferNode*, std::string>, WeightLines> found;
  for (const LoadNode* n : OwnLoads(loop.body).loads) {
    auto* r = n->indices[0].as<RampNode>();
    const Expr start = r ? r->base : n->indices[0];
    const auto known =
        buffers.find(n->buffer.get());  // those of inner statements are not known yet
    const bool fits = known != buffers.end() && known->second.weight && start.type().is_scalar() &&
                      uses_var(start, loop.var) && !reads_memory(start);
    if (!fits || !is_bound(start)) continue;
    const int bits = bits_of(n->buffer->elem);
    const auto [base, offset] = split_constant(start);
    WeightLines& read = found[{n->buffer.get(), print(base)}];
    read.buffer = n->buffer;
    read.base = base;
    const int64_t last = offset + (r && is_int(r->stride, 1) ? n->type.lanes - 1 : 0);
    for (int64_t line = arith::floor_div(offset * bits, kCacheLineBits);
         line <= arith::floor_div(last * bits, kCacheLineBits); ++line) {
      read.lines.insert(line);
    }
  }
  std::vector<WeightLines> all;
  for (auto& [key, read] : found) all.push_back(std::move(read));
  return all;
}

std::vector<std::string> CExpr::fetches_ahead(const std::vector<const ForNode*>& loops) {
  const auto ahead = loops.back()->annotations.find(kFetchAhead);
  if (ahead == loops.back()->annotations.end()) return {};
  std::vector<std::string> texts;
  for (const WeightLines& read : weights_read(*loops.back())) {
    if (const auto* bytes = std::get_if<int64_t>(&ahead->second)) {
      for (int64_t line : read.lines) {
        texts.push_back(fmt::format("__builtin_prefetch((const char*)&{} + {});",
                                    element(read.buffer, read.base), line * kLineBytes + *bytes));
      }
      continue;
    }
    const Panel panel = panel_of(read.base, loops);
    if (panel.next == 0) continue;
    const std::string place = element(read.buffer, known_.simplify(read.base + panel.next));
    for (const auto& [first, lines] : runs_of(read.lines)) {
      const auto [line, count] = share_of(panel.rounds, lines);
      const std::string own = print(known_.simplify(line));
      for (int64_t n = 0; n < count; ++n) {
        // Into the second level: the panel itself is in the first one.
        texts.push_back(fmt::format("__builtin_prefetch((const char*)&{} + {} * {} + {}, 0, 2);",
                                    place, own, kLineBytes, (first + n) * kLineBytes));
      }
    }
  }
  return texts;
}

// Whether all variables have names here.
bool CExpr::is_bound(const Expr& e) const {
  bool bound = true;
  for_each_expr(e, [&](const Expr& x) {
    if (auto* n = x.as<VarNode>()) bound = bound && vars_.contains(n);
  });
  return bound;
}

}  // namespace tilewright
