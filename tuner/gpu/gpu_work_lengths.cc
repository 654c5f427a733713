#include "tuner/gpu/gpu_work_lengths.h"

#include <algorithm>
#include <map>

#include "ir/arith/interval.h"
#include "ir/predicates.h"
#include "ir/type.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

const LoadNode* as_length(const Expr& e) {
  auto* n = e.as<CastNode>();
  auto* read = n && n->type == Type(ElemType::index) ? n->value.as<LoadNode>() : nullptr;
  return read && read->buffer->scope == Scope::Global ? read : nullptr;
}

// Finds the buffers whose elements masks compare with indices, and the least number above all these
// indices.
class Lengths : public Visitor {
 public:
  explicit Lengths(Analyzer& known) : known_(known) {}
  std::map<const BufferNode*, int64_t> longest;

 protected:
  void visit_for(const ForNode& n) override {
    KnowledgeScope scope(known_);
    known_.bind_kept(n.var, n.min, n.extent);
    Visitor::visit_for(n);
  }
  void visit_let(const LetNode& n) override {
    KnowledgeScope scope(known_);
    known_.bind(n.var, known_.bounds(n.value));
    Visitor::visit_let(n);
  }
  void visit_select(const SelectNode& n) override {
    for (const Expr& mask : conjuncts(n.cond)) compare(mask);
    Visitor::visit_select(n);
  }

 private:
  void compare(const Expr& mask) {
    auto* limit = mask.as<BinaryNode>();
    const bool below = limit && (limit->op == BinaryOp::LT || limit->op == BinaryOp::LE);
    if (!below || reads_memory(limit->a)) return;
    // A limit's own condition (whether the row belongs to its sequence) counts as a mask, too.
    if (auto* either = limit->b.as<SelectNode>()) {
      for (const Expr& cond : conjuncts(either->cond)) compare(cond);
    }
    const int64_t most = known_.bounds(limit->a).max;
    if (most == Interval::kPosInf) return;
    for_each_expr(limit->b, [&](const Expr& e) {
      if (const LoadNode* read = as_length(e)) {
        auto [place, added] = longest.try_emplace(read->buffer.get(), most + 1);
        if (!added) place->second = std::min(place->second, most + 1);
      }
    });
  }

  Analyzer& known_;
};

class AtLongest : public Mutator {
 public:
  explicit AtLongest(const std::map<const BufferNode*, int64_t>& longest) : longest_(longest) {}

 protected:
  Expr mutate_cast(const CastNode& n, const Expr& e) override {
    const LoadNode* read = as_length(e);
    auto it = read ? longest_.find(read->buffer.get()) : longest_.end();
    return it == longest_.end() ? Mutator::mutate_cast(n, e) : Expr(it->second);
  }

 private:
  const std::map<const BufferNode*, int64_t>& longest_;
};

}  // namespace

Stmt with_longest_lengths(const Stmt& kernel, Analyzer& known) {
  Lengths lengths(known);
  lengths(kernel);
  return lengths.longest.empty() ? kernel : AtLongest(lengths.longest)(kernel);
}

}  // namespace tilewright
