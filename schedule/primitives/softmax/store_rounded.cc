#include "schedule/primitives/softmax/store_rounded.h"

#include <fmt/core.h>

#include <utility>

#include "schedule/primitive_json.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {
namespace {

// True when every value of the float type `from` is a value of `to`.
bool holds(ElemType to, ElemType from) {
  return is_float(from) && is_float(to) && bits_of(from) < bits_of(to) && bits_of(to) >= 32;
}

// Rewrites the block's store, and every read of what it stores.
class RoundedStores : public Mutator {
 public:
  RoundedStores(Buffer from, Buffer to, Expr rounded)
      : from_(std::move(from)), to_(std::move(to)), rounded_(std::move(rounded)) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer != from_) return Mutator::mutate_load(n, e);
    bool changed = false;
    return cast(n.type, load(to_, mutate_all(n.indices, &changed), n.predicate));
  }
  Stmt mutate_store(const StoreNode& n, const Stmt& s) override {
    if (n.buffer != from_) return Mutator::mutate_store(n, s);
    return make_store(to_, n.indices, rounded_);
  }

 private:
  Buffer from_, to_;
  Expr rounded_;
};

}  // namespace

Applied StoreRounded::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Pointwise of = Pointwise::find(tree, block);
  const Buffer& from = of.store->buffer;
  require_intermediate(tree, from, "its values are needed outside", {of.stmt()});
  require_only_writer(tree, of.stmt(), from);
  auto* widened = of.store->value.as<CastNode>();
  tree.require(widened && holds(from->elem, widened->value.type().elem), RefusalKind::Unsupported,
               fmt::format("the value of block '{}' is not converted to {} from a narrower float",
                           block, to_string(from->elem)),
               {of.stmt()});
  Buffer to = make_buffer(from->name, widened->value.type().elem, from->shape, from->scope);
  Module result = module;
  std::string scope = scope_of(of.path).as<BlockNode>()->name;
  result.main.body = RoundedStores(from, to, widened->value)(module.main.body);
  result.main = add_alloc(without_buffer(result.main, from), scope, to);
  return {std::move(result), {}};
}

std::vector<PrimitiveEntry> store_rounded_primitives() { return {primitive_entry<StoreRounded>()}; }

}  // namespace tilewright
