// precompute: computes values that depend only on a weight when the weight is loaded.
#include <fmt/core.h>

#include <algorithm>

#include "ir/arith/simplify.h"
#include "ir/visitor.h"
#include "schedule/primitives/nest.h"
#include "schedule/primitives/pointwise.h"
#include "schedule/primitives/region.h"
#include "schedule/primitives/weight/prepack.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The buffer that the block writes; no other block may write it.
Buffer require_own_buffer(const Tree& tree, const Stmt& s) {
  const BlockNode& block = *s.as<BlockNode>();
  std::vector<Buffer> written = buffers_written(block);
  tree.require(written.size() == 1, RefusalKind::Unsupported,
               fmt::format("block '{}' writes {} buffers", block.name, written.size()), {s});
  require_intermediate(tree, written[0], "its values are needed outside", {s});
  for (const Stmt& other : leaf_blocks(tree.program().body)) {
    auto* node = other.as<BlockNode>();
    tree.require(node == &block || !contains(buffers_written(*node), written[0]),
                 RefusalKind::Dependence,
                 fmt::format("block '{}' also writes '{}', the buffer of block '{}'", node->name,
                             written[0]->name, block.name),
                 {s, other});
  }
  return written[0];
}

// The only weight that the block reads.
Buffer require_weight(const Tree& tree, const Module& module, const Stmt& s, const Buffer& own) {
  const BlockNode& block = *s.as<BlockNode>();
  Buffer weight;
  for (const Buffer& read : buffers_read(block)) {
    if (read == own) continue;
    bool is_weight = std::any_of(
        module.main.params.begin(), module.main.params.end(),
        [&](const Param& p) { return p.buffer == read && p.role == ParamRole::Weight; });
    tree.require(is_weight, RefusalKind::BadArgument,
                 fmt::format("block '{}' reads '{}', which is no weight: it cannot be computed at "
                             "load",
                             block.name, read->name),
                 {s});
    tree.require(!weight, RefusalKind::Unsupported,
                 fmt::format("block '{}' reads more than one weight", block.name), {s});
    weight = read;
  }
  tree.require(weight != nullptr, RefusalKind::BadArgument,
               fmt::format("block '{}' reads no weight", block.name), {s});
  return weight;
}

// Replaces loads of a buffer that a pack program makes by the value that the program stores there.
class Unpacker : public Mutator {
 public:
  Unpacker(Buffer packed, const BlockNode& block) : packed_(std::move(packed)), block_(block) {}

 protected:
  Expr mutate_load(const LoadNode& n, const Expr& e) override {
    if (n.buffer != packed_) return Mutator::mutate_load(n, e);
    VarMap at;
    for (size_t d = 0; d < n.indices.size(); ++d) at[block_.iters[d].var.get()] = n.indices[d];
    return substitute(block_.body.as<StoreNode>()->value, at);
  }

 private:
  Buffer packed_;
  const BlockNode& block_;
};

const Program* find_pack(const Module& module, const Buffer& buffer) {
  for (const Program& pack : module.packs) {
    if (pack.params.back().buffer == buffer) return &pack;
  }
  return nullptr;
}

// A pack program writes all of its output, even the padding of a layout.
void require_every_element(const Tree& tree, const Stmt& s, const Buffer& buffer) {
  tree.require(has_every_element(tree, buffer), RefusalKind::Unsupported,
               fmt::format("the layout of '{}' has padding that block '{}' does not write; "
                           "precompute it before its layout changes",
                           buffer->name, s.as<BlockNode>()->name),
               {s});
}

bool reads(const Program& program, const Buffer& buffer) {
  std::vector<Stmt> blocks = leaf_blocks(program.body);
  return std::any_of(blocks.begin(), blocks.end(), [&](const Stmt& s) {
    return contains(buffers_read(*s.as<BlockNode>()), buffer);
  });
}

// Main without the nest at `place` and the allocation of `buffer`, which becomes a parameter
// instead.
Program without_block(const Program& main, const Stmt& place, const Buffer& weight,
                      const Buffer& buffer) {
  Program result = replace_stmt(main, place.get(), Stmt());
  const BlockNode& root = *result.body.as<BlockNode>();
  std::vector<Buffer> allocs = root.allocs;
  std::erase(allocs, buffer);
  result.body = with_allocs(root, std::move(allocs));
  auto at = std::find_if(result.params.begin(), result.params.end(),
                         [&](const Param& p) { return p.buffer == weight; });
  if (reads(result, weight)) {
    result.params.insert(at + 1, {buffer, ParamRole::Weight});
  } else {
    at->buffer = buffer;
  }
  return result;
}

}  // namespace

Applied Precompute::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Path path = tree.block(block);
  const Stmt& s = path.back();
  std::vector<Stmt> loops = require_lowered(tree, path, "precompute it");
  Buffer buffer = require_own_buffer(tree, s);
  Buffer weight = require_weight(tree, module, s, buffer);
  auto* root = module.main.body.as<BlockNode>();
  tree.require(scope_of(path).get() == root && contains(root->allocs, buffer),
               RefusalKind::BadStructure,
               fmt::format("'{}' is not allocated in the outermost block, around block '{}'",
                           buffer->name, block),
               {s});
  require_every_element(tree, s, buffer);
  Program pack;
  pack.name = "pack_" + buffer->name;
  pack.params = {{weight, ParamRole::Weight}, {buffer, ParamRole::Output}};
  pack.body = make_block("root", {}, loops[0]);
  Module result = module;
  const Program* before = find_pack(module, weight);
  if (before) {
    const BlockNode* element = elementwise_block(*before);
    tree.require(element != nullptr, RefusalKind::Unsupported,
                 fmt::format("'{}' is computed at load by a reduction, or otherwise than each "
                             "element at the iterators of one block",
                             weight->name),
                 {s});
    pack.params[0].buffer = before->params[0].buffer;
    pack.body = Unpacker(weight, *element)(pack.body);
  }
  result.main = without_block(module.main, loops[0], weight, buffer);
  bool still_read = std::any_of(result.main.params.begin(), result.main.params.end(),
                                [&](const Param& p) { return p.buffer == weight; });
  if (before && !still_read) {
    std::erase_if(result.packs, [&](const Program& p) { return p.params.back().buffer == weight; });
  }
  result.packs.push_back(std::move(pack));
  return {std::move(result), {buffer->name}};
}

}  // namespace tilewright
