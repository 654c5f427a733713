#include "schedule/primitives/layout/layout.h"

#include <fmt/core.h>

#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/layout/relayout.h"
#include "schedule/primitives/pointwise.h"

namespace tilewright {

Applied SetScope::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Buffer old = tree.buffer(buffer);
  require_intermediate(tree, old, "only an intermediate buffer has a scope of its own");
  Module result = module;
  BufferMap map{{old.get(), make_buffer(old->name, old->elem, old->shape, scope)}};
  result.main.body = replace_buffers(module.main.body, map);
  return {std::move(result), {}};
}

Applied TransformLayout::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Buffer old = tree.buffer(buffer);
  require_intermediate(tree, old,
                       "prepack lays out a weight, and other parameters are the caller's");
  require_plain_accesses(tree, old);
  Bijection bijection =
      require_bijection(tree, map, old->shape, fmt::format("buffer '{}'", buffer));
  Buffer laid_out = with_shape(old, bijection.image);
  Module result = module;
  result.main.body = relaid(module.main, old, laid_out, map);
  return {std::move(result), {}};
}

std::vector<PrimitiveEntry> layout_primitives() {
  return {primitive_entry<SetScope>(), primitive_entry<TransformLayout>(),
          primitive_entry<TransformBlockLayout>()};
}

}  // namespace tilewright
