// Static bounds analysis: proves that accesses stay within their buffers from the ranges of loops
// and dimensions and the conditions around each access.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "ir/arith/lane_of.h"
#include "ir/arith/simplify.h"
#include "ir/arith/size_facts.h"
#include "ir/call_table.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

class BoundsProver : public Visitor {
 public:
  explicit BoundsProver(const Program& program) {
    for (const DimVar& d : program.dims) known_.bind(d.var, Interval{d.min, d.max});
    visit(program.body);
  }
  int accesses() const { return accesses_; }
  std::vector<std::string> open() && { return std::move(open_); }

 protected:
  using Visitor::visit;

  void visit_load(const LoadNode& n) override {
    access(n.buffer, n.indices, n.predicate);
    Visitor::visit_load(n);
  }
  void visit_store(const StoreNode& n) override {
    access(n.buffer, n.indices, n.predicate);
    Visitor::visit_store(n);
  }
  void visit_select(const SelectNode& n) override {
    visit(n.cond);
    under(n.cond, n.on_true);
    under(!n.cond, n.on_false);
  }
  void visit_call(const CallNode& n) override {
    // An address may lie outside of its buffer; statements read no element themselves.
    if (row_of(n.op).is_statement) return;
    if (n.op != CallOp::IfThenElse) return Visitor::visit_call(n);
    visit(n.args[0]);
    under(n.args[0], n.args[1]);
    under(!n.args[0], n.args[2]);
  }
  void visit_for(const ForNode& n) override {
    visit(n.min);
    visit(n.extent);
    KnowledgeScope scope(known_);
    known_.bind_kept(n.var, n.min, n.extent);
    visit(n.body);
  }
  void visit_if(const IfNode& n) override {
    visit(n.cond);
    under(n.cond, n.then_case);
    if (!n.else_case.defined()) return;
    KnowledgeScope scope(known_);
    assume_other(n.cond);
    under(!n.cond, n.else_case);
  }
  void visit_let(const LetNode& n) override {
    visit(n.value);
    // Substitutes an index value for its variable, so that terms it shares with others cancel.
    const bool is_index = n.value.type() == Type(ElemType::index);
    visit(is_index ? substitute(n.body, VarMap{{n.var.get(), n.value}}) : n.body);
  }
  void visit_allocate(const AllocateNode& n) override { visit(n.body); }
  void visit_block(const BlockNode& n) override {
    TW_ASSERT(false, fmt::format("block '{}' is left in a lowered program", n.name));
  }

 private:
  // Assumes that `a == b` fails: where one side never exceeds the other, it is then smaller. The
  // last of several tails needs this, as each tail handles one number of rows.
  void assume_other(const Expr& condition) {
    const auto* n = condition.as<BinaryNode>();
    if (n == nullptr || n->op != BinaryOp::EQ || n->a.type() != Type(ElemType::index)) return;
    const Interval difference = known_.bounds(n->a - n->b);
    if (difference.min == 0) known_.assume(n->a > n->b);
    if (difference.max == 0) known_.assume(n->a < n->b);
  }

  template <class Node>
  void under(const Expr& condition, const Node& node) {
    KnowledgeScope scope(known_);
    // A vector mask differs between lanes, so it is not assumed; a load under it has a predicate of
    // its own.
    if (condition.type().lanes == 1) known_.assume(condition);
    visit(node);
  }

  void access(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& predicate) {
    ++accesses_;
    if (stays_within(buffer, indices, predicate)) return;
    std::vector<std::string> texts;
    for (const Expr& index : indices) texts.push_back(to_string(index));
    open_.push_back(fmt::format("{}[{}]", buffer->name, fmt::join(texts, ", ")));
  }

  bool stays_within(const Buffer& buffer, const std::vector<Expr>& indices, const Expr& predicate) {
    int lanes = 1;
    for (const Expr& index : indices) lanes = std::max<int>(lanes, index.type().lanes);
    KnowledgeScope scope(known_);
    const Var lane("lane");
    LaneOf in_lane(lane);
    known_.bind(lane, Interval{0, lanes - 1});
    if (predicate.defined() && !holds_vectors_in_memory(predicate)) {
      known_.assume(in_lane(predicate));
    }
    for (size_t d = 0; d < indices.size(); ++d) {
      if (lanes > 1 && holds_vectors_in_memory(indices[d])) return false;
      const Expr index = in_lane(indices[d]);
      if (!known_.prove(index >= Expr(0)) || !known_.prove(index < buffer->shape[d])) return false;
    }
    return true;
  }

  Analyzer known_;
  int accesses_ = 0;
  std::vector<std::string> open_;
};

}  // namespace

std::vector<std::string> unproved_accesses(const Program& program, int* accesses) {
  BoundsProver prover(program);
  if (accesses) *accesses = prover.accesses();
  return std::move(prover).open();
}

}  // namespace tilewright
