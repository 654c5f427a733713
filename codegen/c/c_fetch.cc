// Weights that are read once come from memory. Processors fetch ahead of a stream on their own, but begin anew at
// each page, where the loads of a kernel then wait.
#include <fmt/format.h>

#include <map>
#include <set>

#include "codegen/c/c_expr.h"
#include "codegen/codegen.h"
#include "ir/arith/linear.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kCacheLineBits = 64 * 8;

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

}  // namespace

std::vector<std::string> CExpr::fetches_ahead(const ForNode& loop) {
  const auto ahead = loop.annotations.find(kFetchAhead);
  if (ahead == loop.annotations.end()) return {};
  std::map<std::pair<const BufferNode*, std::string>, std::set<int64_t>> lines;
  std::vector<std::string> texts;
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
    std::set<int64_t>& seen = lines[{n->buffer.get(), print(base)}];
    const int64_t last = offset + (r && is_int(r->stride, 1) ? n->type.lanes - 1 : 0);
    for (int64_t line = arith::floor_div(offset * bits, kCacheLineBits);
         line <= arith::floor_div(last * bits, kCacheLineBits); ++line) {
      if (!seen.insert(line).second) continue;
      texts.push_back(fmt::format("__builtin_prefetch((const char*)&{} + {});",
                                  element(n->buffer, base),
                                  line * kCacheLineBits / 8 + std::get<int64_t>(ahead->second)));
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
