#include "ir/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/text/printer.h"
#include "ir/verify_block.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using verify_detail::BlockSite;
using verify_detail::LinearIndex;
using verify_detail::Loop;

bool is_grid_axis(ForKind kind) {
  return kind != ForKind::Serial && kind != ForKind::Parallel && kind != ForKind::Vectorized &&
         kind != ForKind::Unrolled;
}

// Walks a program and tracks the visible names and the known facts at each place.
class Verifier : public Visitor {
 public:
  explicit Verifier(const Program& program) : program_(program) {}
  std::vector<Violation> run();

 protected:
  void visit_var(const VarNode& n) override;
  void visit_load(const LoadNode& n) override;
  void visit_select(const SelectNode& n) override;
  void visit_call(const CallNode& n) override;
  void visit_for(const ForNode& n) override;
  void visit_block(const BlockNode& n) override;
  void visit_store(const StoreNode& n) override;
  void visit_if(const IfNode& n) override;
  void visit_seq(const SeqNode& n) override;
  void visit_evaluate(const EvaluateNode& n) override;
  void visit_let(const LetNode& n) override;
  void visit_allocate(const AllocateNode& n) override;

 private:
  // Reports refer to `node` until the end of the scope.
  struct At {
    At(Verifier& v, const StmtNode& node) : verifier(v), outer(v.at_) { v.at_ = &node; }
    ~At() { verifier.at_ = outer; }
    Verifier& verifier;
    const StmtNode* outer;
  };
  void report(std::string message) { violations_.push_back({std::move(message), at_}); }

  void head();
  void check_buffer(const Buffer& b);
  void check_bounds(const Buffer& b, const std::vector<Expr>& indices, const char* verb);
  void enter_loop(const ForNode& n);
  void visit_allocs(const std::vector<Buffer>& allocs);
  void visit_block_body(const BlockNode& n);
  void check_parallel(const BlockNode& n);

  const Program& program_;
  std::vector<Violation> violations_;
  const StmtNode* at_ = nullptr;
  std::set<const ExprNode*> visible_;
  std::set<const ExprNode*> outside_block_;  // loops that the enclosing block has bound to
                                             // iterators
  std::set<const BufferNode*> buffers_;
  std::set<const BufferNode*> read_only_;
  std::set<std::string> loop_names_, block_names_;
  BlockSite site_;
  std::vector<const ForNode*> around_;  // every loop around, even outside the block
  int guards_ = 0;
  bool has_blocks_ = false;
};

std::vector<Violation> Verifier::run() {
  for_each_stmt(program_.body, [&](const Stmt& s) { has_blocks_ |= s.kind() == StmtKind::Block; });
  at_ = program_.body.get();
  head();
  visit(program_.body);
  return std::move(violations_);
}

void Verifier::head() {
  std::set<std::string> names;
  for (const DimVar& d : program_.dims) {
    visible_.insert(d.var.get());
    if (!names.insert(d.var.name()).second) {
      report(fmt::format("two dimensions have the name '{}'", d.var.name()));
    }
  }
  names.clear();
  for (const Param& p : program_.params) {
    for (const Expr& extent : p.buffer->shape) visit(extent);
    buffers_.insert(p.buffer.get());
    if (p.role != ParamRole::Output) read_only_.insert(p.buffer.get());
    if (!names.insert(p.buffer->name).second) {
      report(fmt::format("two parameters have the name '{}'", p.buffer->name));
    }
  }
}

void Verifier::visit_var(const VarNode& n) {
  if (visible_.count(&n)) return;
  if (outside_block_.count(&n)) {
    report(
        fmt::format("the body of a block uses the loop '{}' around it, and may use only what the "
                    "block's iterators are bound to",
                    n.name));
  } else {
    report(fmt::format("the variable '{}' is used where it is not bound", n.name));
  }
}

void Verifier::check_buffer(const Buffer& b) {
  if (buffers_.count(b.get())) return;
  report(
      fmt::format("the buffer '{}' is no parameter and is not allocated around its use", b->name));
}

// Reports an index that certainly leaves its buffer. It must be a sum in which each variable stands
// once and reaches both ends of its range, at a place that no condition guards.
void Verifier::check_bounds(const Buffer& b, const std::vector<Expr>& indices, const char* verb) {
  if (guards_ > 0) return;
  for (size_t d = 0; d < indices.size(); ++d) {
    auto extent = as_int(b->shape.at(d));
    auto range = LinearIndex(site_).range(indices[d]);
    if (!extent || !range || (range->min >= 0 && range->max < *extent)) continue;
    report(fmt::format("'{}' is {} at {}..{} in dimension {}, which has {} elements", b->name, verb,
                       range->min, range->max, d, *extent));
  }
}

void Verifier::visit_load(const LoadNode& n) {
  check_buffer(n.buffer);
  guards_ += n.predicate.defined();
  check_bounds(n.buffer, n.indices, "read");
  Visitor::visit_load(n);
  guards_ -= n.predicate.defined();
}

void Verifier::visit_select(const SelectNode& n) {
  visit(n.cond);
  ++guards_;
  visit(n.on_true);
  visit(n.on_false);
  --guards_;
}

// A prefetch may name an address outside its buffer. A condition guards the sides of an
// if_then_else.
void Verifier::visit_call(const CallNode& n) {
  if (n.op == CallOp::IfThenElse) visit(n.args[0]);
  ++guards_;
  for (size_t i = n.op == CallOp::IfThenElse ? 1 : 0; i < n.args.size(); ++i) visit(n.args[i]);
  --guards_;
}

void Verifier::enter_loop(const ForNode& n) {
  visit(n.min);
  visit(n.extent);
  if (visible_.count(n.var.get())) {
    report(fmt::format("the loop '{}' binds a variable that is bound around it", n.var.name()));
  }
  if (has_blocks_ && !loop_names_.insert(n.var.name()).second) {
    report(fmt::format("two loops have the name '{}'", n.var.name()));
  }
  for (const ForNode* outer : around_) {
    if (is_grid_axis(n.for_kind) && outer->for_kind == n.for_kind) {
      report(fmt::format("the loop '{}' is a {} loop inside the {} loop '{}'", n.var.name(),
                         name_of(n.for_kind), name_of(n.for_kind), outer->var.name()));
    }
  }
}

void Verifier::visit_for(const ForNode& n) {
  At at(*this, n);
  enter_loop(n);
  visible_.insert(n.var.get());
  around_.push_back(&n);
  site_.loops.push_back(Loop::of(n));
  bool may_not_run = !as_int(n.extent) || *as_int(n.extent) < 1;
  guards_ += may_not_run;
  visit(n.body);
  guards_ -= may_not_run;
  site_.loops.pop_back();
  around_.pop_back();
  visible_.erase(n.var.get());
}

void Verifier::visit_allocs(const std::vector<Buffer>& allocs) {
  for (const Buffer& b : allocs) {
    for (const Expr& extent : b->shape) visit(extent);
    if (!buffers_.insert(b.get()).second) {
      report(fmt::format("the buffer '{}' is allocated twice", b->name));
    }
  }
}

void Verifier::check_parallel(const BlockNode& n) {
  for (const ForNode* loop : around_) {
    bool at_once = loop->for_kind == ForKind::Parallel || loop->for_kind == ForKind::BlockX ||
                   loop->for_kind == ForKind::BlockY || loop->for_kind == ForKind::BlockZ;
    if (!at_once) continue;
    for (const IterVar& iter : n.iters) {
      if (iter.kind != IterKind::Reduce || !site_.depends_on(iter.binding, loop->var)) continue;
      report(fmt::format("the {} loop '{}' carries the reduction '{}' of block '{}'",
                         name_of(loop->for_kind), loop->var.name(), iter.var.name(), n.name));
    }
  }
}

void Verifier::visit_block(const BlockNode& n) {
  At at(*this, n);
  if (!block_names_.insert(n.name).second) {
    report(fmt::format("two blocks have the name '{}'", n.name));
  }
  for (const IterVar& iter : n.iters) {
    visit(iter.extent);
    visit(iter.binding);
  }
  check_parallel(n);
  for (const std::string& message : verify_detail::check_bindings(n, site_, guards_ > 0)) {
    report(message);
  }
  if (n.iters.empty()) {  // a mere scope: everything stays visible
    visit(n.predicate);
    guards_ += n.predicate.defined();
    visit_allocs(n.allocs);
    visit(n.init);
    visit(n.body);
    guards_ -= n.predicate.defined();
  } else {
    visit_block_body(n);
  }
  for (const Buffer& b : n.allocs) buffers_.erase(b.get());
}

// Inside the body, the iterators hide the loops between this block and the enclosing one.
void Verifier::visit_block_body(const BlockNode& n) {
  auto visible = visible_;
  auto outside = outside_block_;
  for (const IterVar& iter : n.iters) visible_.insert(iter.var.get());
  visit(n.predicate);
  BlockSite inner = site_.inside(n);
  std::swap(site_, inner);
  for (const Loop& loop : inner.loops) {
    visible_.erase(loop.var.get());
    outside_block_.insert(loop.var.get());
  }
  guards_ += n.predicate.defined();
  visit_allocs(n.allocs);
  visit(n.init);
  visit(n.body);
  guards_ -= n.predicate.defined();
  std::swap(site_, inner);
  visible_ = std::move(visible);
  outside_block_ = std::move(outside);
}

void Verifier::visit_store(const StoreNode& n) {
  At at(*this, n);
  check_buffer(n.buffer);
  if (read_only_.count(n.buffer.get())) {
    report(fmt::format("'{}' is stored to, and is no output", n.buffer->name));
  }
  guards_ += n.predicate.defined();
  check_bounds(n.buffer, n.indices, "stored to");
  Visitor::visit_store(n);
  guards_ -= n.predicate.defined();
}

void Verifier::visit_if(const IfNode& n) {
  At at(*this, n);
  visit(n.cond);
  ++guards_;
  visit(n.then_case);
  visit(n.else_case);
  --guards_;
}

void Verifier::visit_seq(const SeqNode& n) {
  for (const Stmt& s : n.stmts) visit(s);
}

void Verifier::visit_evaluate(const EvaluateNode& n) {
  At at(*this, n);
  visit(n.value);
}

void Verifier::visit_let(const LetNode& n) {
  At at(*this, n);
  if (has_blocks_) report("a let stands in a program with blocks, and belongs to lowered programs");
  visit(n.value);
  visible_.insert(n.var.get());
  visit(n.body);
  visible_.erase(n.var.get());
}

void Verifier::visit_allocate(const AllocateNode& n) {
  At at(*this, n);
  if (has_blocks_) {
    report("an allocate stands in a program with blocks, and belongs to lowered programs");
  }
  visit_allocs({n.buffer});
  visit(n.body);
  buffers_.erase(n.buffer.get());
}

}  // namespace

std::vector<Violation> verify(const Program& program) { return Verifier(program).run(); }

void verify_or_throw(const Program& program, const std::string& after) {
  std::vector<Violation> violations = verify(program);
  if (violations.empty()) return;
  const Violation& first = violations.front();
  PrintOptions options;
  options.mark = {first.where};
  options.note = first.message;
  std::string more =
      violations.size() > 1 ? fmt::format(" (and {} more)", violations.size() - 1) : "";
  throw InternalError(fmt::format("the program '{}' is not legal after {}: {}{}\n{}", program.name,
                                  after, first.message, more, to_string(program, options)));
}

}  // namespace tilewright
