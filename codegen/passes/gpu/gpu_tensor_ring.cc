#include "codegen/passes/gpu/gpu_tensor_ring.h"

#include <algorithm>

#include "codegen/statements.h"

namespace tilewright {

Stmt fill(const Ring& ring, const Expr& at, const Expr& count) {
  const VarMap there = {{ring.loop.var.get(), at}};
  std::vector<Stmt> stmts = {arrive(ring.full(count), ring.bytes())};
  auto ask = [&](const TensorCopy& c, int64_t blocks) {
    std::vector<Expr> start = {ring.slot(count)};
    for (const Expr& e : c.start) start.push_back(substitute(e, there));
    TensorBox box = c.box;
    for (Expr& e : box.at) e = substitute(e, there);
    if (box.pixels) {
      for (Expr& e : box.pixels->offsets) e = substitute(e, there);
    }
    const Expr to = load(ring.rings.at(c.shared.get()), start);
    Stmt copy = c.stretch > 0
                    ? call_statement(CallOp::BulkLoad, {to, load(c.operand, box.at),
                                                        Expr(c.bytes_each()), ring.full(count)})
                    : load_box(to, c.operand, ring.full(count), box, blocks);
    stmts.push_back(c.repeated(copy));
  };
  for (const TensorCopy& c : ring.shared) ask(c, ring.cluster.blocks);
  for (const TensorCopy& c : ring.copies) ask(c, 1);
  return make_seq(std::move(stmts));
}

Stmt with_first(const Ring& ring, const Var& first, const Stmt& body, int64_t step) {
  if (!ring.done) return substitute(body, VarMap{{first.get(), Expr(0)}});
  const std::vector<Expr> one = {Expr(0)};
  const Expr seen = cast(ElemType::index, load(ring.done, one));
  Stmt keep =
      make_store(ring.done, one, cast(ElemType::u32, first + ring.loop.extent * Expr(step)));
  return make_let(first, floormod(seen, Expr(2 * ring.stages)), make_seq({body, keep}));
}

Stmt with_counter(const Ring& ring, const Stmt& body, const Expr& begun) {
  if (!ring.done) return body;
  const Expr value = is_int(begun, 0) ? make_int(ElemType::u32, 0) : cast(ElemType::u32, begun);
  Stmt begin = make_store(ring.done, {Expr(0)}, value);
  return make_allocate(ring.done, make_seq({begin, body}));
}

Stmt with_release(const Ring& ring, const Stmt& uses, const Stmt& free) {
  auto [buffers, stmts] = body_of(uses);
  const auto last = std::find_if(stmts.rbegin(), stmts.rend(), [&](const Stmt& s) {
    const auto read = read_by(s);
    return std::any_of(read.begin(), read.end(),
                       [&](const BufferNode* b) { return ring.rings.count(b) != 0; });
  });
  // Statements that need no results may run beside the products that make them, which read the stage.
  auto next = last.base();
  while (last != stmts.rend() && next != stmts.end() && !meet(read_by(*next), stored_by(*last))) {
    ++next;
  }
  stmts.insert(next, free);
  return with_buffers(buffers, make_seq(std::move(stmts)));
}

Stmt with_lookups(const Ring& ring, Stmt body) {
  for (const auto& [name, value] : ring.lookups) body = make_let(name, value, body);
  return body;
}

namespace {

// The parts of a kernel that issue copies: its loops, conditions and names around them.
class Producer : public Mutator {
 public:
  explicit Producer(const Ring& ring) : ring_(ring) {}

 protected:
  using Mutator::mutate;
  Expr mutate(const Expr& e) override { return e; }
  Stmt mutate_for(const ForNode& n, const Stmt& s) override {
    return &n == &ring_.loop ? loop() : Mutator::mutate_for(n, s);
  }
  Stmt mutate_allocate(const AllocateNode& n, const Stmt&) override { return mutate(n.body); }
  Stmt mutate_store(const StoreNode&, const Stmt&) override { return {}; }
  Stmt mutate_evaluate(const EvaluateNode&, const Stmt&) override { return {}; }

 private:
  Stmt loop() const {
    const ForNode& n = ring_.loop;
    Var first("first");
    const Expr count = simplify(first + n.var - n.min);
    Stmt body = make_seq({ring_.wait_for_empty(count), fill(ring_, n.var, count)});
    return with_lookups(
        ring_, with_first(ring_, first, make_for(n.var, n.min, n.extent, ForKind::Serial, body)));
  }

  const Ring& ring_;
};

}  // namespace

Stmt producer_of(const Ring& ring, const Stmt& kernel) { return Producer(ring)(kernel); }

}  // namespace tilewright
