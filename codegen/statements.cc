#include "codegen/statements.h"

#include <algorithm>
#include <utility>

#include "ir/visitor.h"

namespace tilewright {

Body body_of(const Stmt& s) {
  Body body;
  Stmt inside = s;
  while (auto* a = inside.as<AllocateNode>()) {
    body.buffers.push_back(a->buffer);
    inside = a->body;
  }
  auto* seq = inside.as<SeqNode>();
  body.stmts = seq ? seq->stmts : std::vector{inside};
  return body;
}

Stmt with_buffers(const std::vector<Buffer>& buffers, Stmt s) {
  for (size_t b = buffers.size(); b-- > 0;) s = make_allocate(buffers[b], s);
  return s;
}

Program with_body(const Program& program, Stmt body) {
  Program result = program;
  result.body = std::move(body);
  return result;
}

Stmt map_stores(const Stmt& s, const std::function<Stmt(const StoreNode&, const Stmt&)>& fn) {
  class Stores : public Mutator {
   public:
    explicit Stores(const std::function<Stmt(const StoreNode&, const Stmt&)>& fn) : fn_(fn) {}

   protected:
    Stmt mutate_store(const StoreNode& n, const Stmt& s) override { return fn_(n, s); }

   private:
    const std::function<Stmt(const StoreNode&, const Stmt&)>& fn_;
  };
  return Stores(fn)(s);
}

BufferSet read_by(const Stmt& s) {
  BufferSet read;
  for_each_expr(s, [&](const Expr& e) {
    if (auto* n = e.as<LoadNode>()) read.insert(n->buffer.get());
  });
  return read;
}

BufferSet stored_by(const Stmt& s) {
  BufferSet stored;
  for_each_stmt(s, [&](const Stmt& x) {
    if (auto* n = x.as<StoreNode>()) stored.insert(n->buffer.get());
  });
  return stored;
}

bool meet(const BufferSet& a, const BufferSet& b) {
  return std::any_of(a.begin(), a.end(), [&](const BufferNode* x) { return b.count(x) != 0; });
}

bool depends(const Stmt& a, const Stmt& b) {
  const BufferSet in_a = stored_by(a), in_b = stored_by(b);
  return meet(in_a, in_b) || meet(in_a, read_by(b)) || meet(read_by(a), in_b);
}

}  // namespace tilewright
