// Row-major buffers with one index per access.
#include <map>

#include "codegen/lowering.h"
#include "codegen/passes/ranged_mutator.h"

namespace tilewright {
namespace {

class Flattener : public RangedMutator {
 public:
  // The one-dimensional buffer that stands for `b`.
  Buffer flat(const Buffer& b) {
    Buffer& known = flat_[b.get()];
    if (!known) {
      Expr size = 1;
      for (const Expr& extent : b->shape) size = size * extent;
      known = with_shape(b, {simplify(size)});
    }
    return known;
  }

 protected:
  Expr mutate_load(const LoadNode& n, const Expr&) override {
    return load(flat(n.buffer), {offset(n.buffer, n.indices)}, mutate(n.predicate));
  }
  Stmt mutate_store(const StoreNode& n, const Stmt&) override {
    return make_store(flat(n.buffer), {offset(n.buffer, n.indices)}, mutate(n.value),
                      mutate(n.predicate), n.is_async);
  }
  Stmt mutate_allocate(const AllocateNode& n, const Stmt&) override {
    return make_allocate(flat(n.buffer), mutate(n.body));
  }

 private:
  Expr offset(const Buffer& b, const std::vector<Expr>& indices) {
    Expr sum = 0;
    for (size_t d = 0; d < indices.size(); ++d) sum = sum * b->shape[d] + mutate(indices[d]);
    return known_.simplify(sum);
  }

  std::map<const BufferNode*, Buffer> flat_;
};

}  // namespace

Program flatten_buffers(const Program& program) {
  Flattener flattener;
  Program result = program;
  for (Param& p : result.params) p.buffer = flattener.flat(p.buffer);
  result.body = flattener(program.body);
  return result;
}

}  // namespace tilewright
