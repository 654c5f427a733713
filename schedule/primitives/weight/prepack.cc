#include "schedule/primitives/weight/prepack.h"

#include <functional>
#include <optional>

#include <fmt/core.h>

#include "ir/visitor.h"
#include "schedule/primitive_json.h"
#include "schedule/primitives/layout/relayout.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

// The value of a packed element at `at`, the indices in the current layout.
using ElementAt = std::function<Expr(const std::vector<Expr>& at)>;

Param& find_param(const Tree& tree, Module& module, const std::string& name) {
  std::vector<std::string> weights;
  for (Param& param : module.main.params) {
    if (param.buffer->name == name) {
      tree.require(param.role == ParamRole::Weight, RefusalKind::BadArgument,
                   fmt::format("'{}' is an {}; only a weight can be laid out at load", name,
                               name_of(param.role)));
      return param;
    }
    if (param.role == ParamRole::Weight) weights.push_back(param.buffer->name);
  }
  for (const Program& pack : module.packs) {
    tree.require(pack.params.front().buffer->name != name, RefusalKind::BadArgument,
                 fmt::format("'{}' is laid out already; name '{}' to lay that out anew", name,
                             pack.params.back().buffer->name));
  }
  std::string list;
  for (const std::string& weight : weights) list += (list.empty() ? "" : ", ") + weight;
  tree.refuse(RefusalKind::NotFound,
              fmt::format("no weight '{}'; {}", name,
                          list.empty() ? "there is none" : "there are: " + list));
}

// The pack program that makes `buffer`, or null.
Program* find_pack(Module& module, const Buffer& buffer) {
  for (Program& pack : module.packs) {
    if (pack.params.back().buffer == buffer) return &pack;
  }
  return nullptr;
}

// The value that a pack program's block stores in an element, as a function of the element's
// indices.
ElementAt element_of(const BlockNode& block) {
  return [&block](const std::vector<Expr>& at) {
    VarMap map;
    for (size_t i = 0; i < at.size(); ++i) map[block.iters[i].var.get()] = at[i];
    return substitute(block.body.as<StoreNode>()->value, map);
  };
}

// for p0 … { packed[p0, …] = the element at inverse(p0, …), or 0 where that lies outside `shape` }.
// Its names avoid `names`, so that it may stand behind other statements.
Stmt pack_nest(const Buffer& packed, const std::vector<Expr>& shape, const IndexMap& inverse,
               const ElementAt& element, std::optional<Names> names) {
  auto name = [&](const std::string& base) { return names ? names->fresh(base) : base; };
  Analyzer known;
  std::vector<IterVar> iters;
  std::vector<Var> loops;
  std::vector<Expr> physical;
  for (int d = 0; d < packed->rank(); ++d) {
    loops.emplace_back(name(fmt::format("p{}", d)));
    Var v(fmt::format("v{}", d));
    known.bind(v, 0, packed->shape[d]);
    iters.push_back({v, packed->shape[d], IterKind::Spatial, loops.back()});
    physical.push_back(v);
  }
  std::vector<Expr> logical = inverse.apply(physical);
  for (Expr& e : logical) e = known.simplify(e);
  Expr inside = inside_condition(logical, shape, known);
  Expr value = element(logical);
  if (inside.defined()) value = select(inside, value, make_const(value.type(), 0));
  Stmt nest = make_block(name(packed->name), std::move(iters),
                         make_store(packed, physical, known.simplify(value)));
  for (size_t d = loops.size(); d-- > 0;) {
    nest = make_for(loops[d], 0, packed->shape[d], ForKind::Serial, nest);
  }
  return make_block("root", {}, nest);
}

// The program with a copy at its end that changes the layout of its output.
Program with_copy(const Program& pack, const Buffer& packed, const Stmt& copy) {
  const auto& root = *pack.body.as<BlockNode>();
  const Buffer& old = pack.params.back().buffer;
  Buffer inner =
      make_buffer(fresh_name(pack, old->name + "_as_written"), old->elem, old->shape, old->scope);
  std::vector<Buffer> allocs = root.allocs;
  allocs.push_back(inner);
  Stmt body = make_seq({root.body, copy.as<BlockNode>()->body});
  Program result = pack;
  Stmt whole = with_allocs(*with_body(root, body).as<BlockNode>(), std::move(allocs));
  result.body = replace_buffers(whole, {{old.get(), inner}});
  result.params.back().buffer = packed;
  return result;
}

Program make_pack(const Buffer& source, const Buffer& packed, Stmt body) {
  Program pack;
  pack.name = "pack_" + source->name;
  pack.params = {{source, ParamRole::Weight}, {packed, ParamRole::Output}};
  pack.body = std::move(body);
  return pack;
}

}  // namespace

const BlockNode* elementwise_block(const Program& pack) {
  const std::vector<Stmt> blocks = leaf_blocks(pack.body);
  if (blocks.size() != 1) return nullptr;
  const BlockNode& block = *blocks[0].as<BlockNode>();
  auto* store = block.body.as<StoreNode>();
  bool plain = store && !store->predicate.defined() && !block.init.defined() &&
               !block.predicate.defined() && store->indices.size() == block.iters.size();
  for (size_t d = 0; plain && d < block.iters.size(); ++d) {
    plain = store->indices[d].same_as(block.iters[d].var);
  }
  return plain ? &block : nullptr;
}

Applied Prepack::apply(const Module& module) const {
  Tree tree(kName, module.main);
  Module result = module;
  Param& param = find_param(tree, result, buffer);
  const Buffer old = param.buffer;
  require_plain_accesses(tree, old);
  Bijection bijection =
      require_bijection(tree, map, old->shape, fmt::format("buffer '{}'", buffer));
  Program* before = find_pack(result, old);
  std::string name = before ? old->name : fresh_name(module.main, old->name + "_packed");
  Buffer packed = make_buffer(name, old->elem, bijection.image, old->scope);
  const BlockNode* direct = before ? elementwise_block(*before) : nullptr;
  const bool behind = before && !direct;
  ElementAt element = [&](const std::vector<Expr>& at) { return load(old, at); };
  if (direct) element = element_of(*direct);
  auto names = behind ? std::optional<Names>(*before) : std::nullopt;
  Stmt body = pack_nest(packed, old->shape, bijection.inverse, element, names);
  if (behind) {
    *before = with_copy(*before, packed, body);
  } else if (before) {
    *before = make_pack(before->params[0].buffer, packed, std::move(body));
  } else {
    result.packs.push_back(make_pack(old, packed, std::move(body)));
  }
  param.buffer = packed;
  result.main.body = relaid(module.main, old, packed, map);
  return {std::move(result), {name}};
}

std::vector<PrimitiveEntry> prepack_primitives() {
  return {primitive_entry<Prepack>(), primitive_entry<Precompute>()};
}

}  // namespace tilewright
