#include "codegen/passes/gpu/gpu_ring.h"

#include <utility>

#include "ir/predicates.h"

namespace tilewright {
namespace {

// True for an element of global memory in stored form, or zero.
bool is_copy(const Expr& value, ElemType elem) {
  if (auto* n = value.as<SelectNode>()) return is_zero(n->on_false) && is_copy(n->on_true, elem);
  auto* load = value.as<LoadNode>();
  return load && load->buffer->scope == Scope::Global && load->buffer->elem == elem;
}

class InSlot : public Mutator {
 public:
  InSlot(const BufferMap& rings, Expr slot, bool copies)
      : rings_(rings), slot_(std::move(slot)), copies_(copies) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    auto it = rings_.find(n.buffer.get());
    if (it == rings_.end()) return Mutator::mutate_load(n, e);
    return load(it->second, in_slot(n.indices), mutate(n.predicate));
  }

  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    auto it = rings_.find(n.buffer.get());
    if (it == rings_.end()) return Mutator::mutate_store(n, s);
    Expr value = mutate(n.value);
    return make_store(it->second, in_slot(n.indices), value, mutate(n.predicate),
                      copies_ && is_copy(value, n.buffer->elem));
  }

 private:
  std::vector<Expr> in_slot(const std::vector<Expr>& indices) {
    std::vector<Expr> all = {slot_};
    for (const Expr& i : indices) all.push_back(mutate(i));
    return all;
  }

  const BufferMap& rings_;
  Expr slot_;
  const bool copies_;
};

}  // namespace

Buffer ring_of(const Buffer& buffer, int64_t stages) {
  std::vector<Expr> shape = {Expr(stages)};
  shape.insert(shape.end(), buffer->shape.begin(), buffer->shape.end());
  return with_shape(buffer, std::move(shape));
}

Stmt in_slot(const BufferMap& rings, const Expr& slot, const Stmt& s) {
  return InSlot(rings, slot, false)(s);
}

Stmt copied_to_slot(const BufferMap& rings, const Expr& slot, const Stmt& copies) {
  return InSlot(rings, slot, true)(copies);
}

}  // namespace tilewright
