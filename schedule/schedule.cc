#include "schedule/schedule.h"

#include <fmt/core.h>

#include "base/knobs.h"
#include "ir/verify.h"
#include "ir/visitor.h"
#include "schedule/primitive.h"
#include "schedule/primitive_json.h"
#include "schedule/tree.h"

namespace tilewright {
namespace {

void write_fields(FieldWriter&) {}
template <class Value, class... Rest>
void write_fields(FieldWriter& writer, const char* name, const Value& value, const Rest&... rest) {
  writer(name, value);
  write_fields(writer, rest...);
}

// A step to apply. The arguments alternate names and values; the names are those of the primitive's
// fields.
template <class... Arguments>
Step step(std::string primitive, const Arguments&... arguments) {
  FieldWriter writer;
  write_fields(writer, arguments...);
  return {std::move(primitive), writer.json(), {}};
}

std::vector<std::string> names_of(const std::vector<Loop>& loops) {
  std::vector<std::string> names;
  for (const Loop& loop : loops) names.push_back(loop.name);
  return names;
}

std::vector<Block> handles_of(std::vector<std::string> names) {
  std::vector<Block> blocks;
  for (std::string& name : names) blocks.push_back({std::move(name)});
  return blocks;
}

std::vector<Block> handles_of(const std::vector<Stmt>& stmts) {
  std::vector<Block> blocks;
  for (const Stmt& s : stmts) blocks.push_back({s.as<BlockNode>()->name});
  return blocks;
}

// Verifies a primitive's result on request: an illegal program is our own error and must not reach
// callers.
void verify_if_asked(const Module& module, const std::string& primitive) {
  if (!knob_boolean(Knob::Verify)) return;
  verify_or_throw(module.main, primitive);
  for (const Program& pack : module.packs) verify_or_throw(pack, primitive);
}

}  // namespace

Schedule::Schedule(Module module) : module_(std::move(module)) {}

std::vector<std::string> Schedule::apply(const Step& step) {
  const auto& table = primitive_table();
  auto entry = table.find(step.primitive);
  if (entry == table.end()) {
    throw ScheduleError(RefusalKind::NotFound, step.primitive, "there is no such primitive",
                        module_.main);
  }
  Applied applied = entry->second(module_, step.arguments);
  if (!step.results.empty() && step.results != applied.results) {
    throw ScheduleError(RefusalKind::BadStructure, step.primitive,
                        "the replayed step makes other names than the recorded one", module_.main);
  }
  verify_if_asked(applied.module, step.primitive);
  module_ = std::move(applied.module);
  trace_.steps.push_back({step.primitive, step.arguments, applied.results});
  return applied.results;
}

Block Schedule::block(const std::string& name) const {
  Tree("block", module_.main).block(name);
  return {name};
}

std::vector<Block> Schedule::blocks() const { return handles_of(leaf_blocks(module_.main.body)); }

std::vector<Loop> Schedule::loops(const Block& block) const {
  std::vector<Loop> loops;
  for (const Stmt& s : loops_above(Tree("loops", module_.main).block(block.name))) {
    loops.push_back({s.as<ForNode>()->var.name()});
  }
  return loops;
}

const BlockNode& Schedule::node(const Block& block) const {
  return *Tree("node", module_.main).block(block.name).back().as<BlockNode>();
}

const ForNode& Schedule::node(const Loop& loop) const {
  return *Tree("node", module_.main).loop(loop.name).back().as<ForNode>();
}

const Buffer& Schedule::output(const Block& block) const {
  const StoreNode* store = nullptr;
  for_each_stmt(node(block).body, [&](const Stmt& s) {
    if (auto* n = s.as<StoreNode>()) store = n;
  });
  TW_ASSERT(store, "block '" + block.name + "' stores nothing");
  return store->buffer;
}

std::vector<Block> Schedule::producers(const Block& block) const {
  Path path = Tree("producers", module_.main).block(block.name);
  if (path.size() == 1) return {};
  return handles_of(producers_of(scope_of(path), *path.back().as<BlockNode>()));
}

std::vector<Block> Schedule::consumers(const Block& block) const {
  Path path = Tree("consumers", module_.main).block(block.name);
  if (path.size() == 1) return {};
  return handles_of(consumers_of(scope_of(path), *path.back().as<BlockNode>()));
}

std::vector<Loop> Schedule::split(const Loop& loop, const std::vector<int64_t>& factors) {
  std::vector<Loop> loops;
  for (std::string& name : apply(step("split", "loop", loop.name, "factors", factors))) {
    loops.push_back({std::move(name)});
  }
  return loops;
}

Loop Schedule::fuse(const std::vector<Loop>& loops) {
  return {apply(step("fuse", "loops", names_of(loops))).at(0)};
}

void Schedule::reorder(const std::vector<Loop>& loops) {
  apply(step("reorder", "loops", names_of(loops)));
}

std::array<Loop, 4> Schedule::tile(const Loop& i, const Loop& j, int64_t ti, int64_t tj) {
  Schedule attempt = *this;  // three steps that succeed or fail together
  std::vector<Loop> is = attempt.split(i, {-1, ti});
  std::vector<Loop> js = attempt.split(j, {-1, tj});
  attempt.reorder({is[0], js[0], is[1], js[1]});
  *this = std::move(attempt);
  return {is[0], js[0], is[1], js[1]};
}

void Schedule::parallel(const Loop& loop) { apply(step("parallel", "loop", loop.name)); }
void Schedule::vectorize(const Loop& loop) { apply(step("vectorize", "loop", loop.name)); }
void Schedule::vectorize_reduction(const Loop& loop) {
  apply(step("vectorize_reduction", "loop", loop.name));
}
void Schedule::unroll(const Loop& loop) { apply(step("unroll", "loop", loop.name)); }

void Schedule::bind(const Loop& loop, ForKind thread_axis) {
  apply(step("bind", "loop", loop.name, "axis", thread_axis));
}

void Schedule::annotate(const Loop& loop, const std::string& key, const Annotation& value) {
  apply(step("annotate_loop", "loop", loop.name, "key", key, "value", value));
}

void Schedule::annotate(const Block& block, const std::string& key, const Annotation& value) {
  apply(step("annotate_block", "block", block.name, "key", key, "value", value));
}

Loop Schedule::add_unit_loop(const Block& block) {
  return {apply(step("add_unit_loop", "block", block.name)).at(0)};
}

Loop Schedule::merge(const std::vector<Loop>& loops) {
  return {apply(step("merge", "loops", names_of(loops))).at(0)};
}

Block Schedule::decompose_reduction(const Block& block, const Loop& loop) {
  return {apply(step("decompose_reduction", "block", block.name, "loop", loop.name)).at(0)};
}

Block Schedule::rfactor(const Block& block, const Loop& loop, int factor_axis) {
  return {apply(step("rfactor", "block", block.name, "loop", loop.name, "factor_axis", factor_axis))
              .at(0)};
}

void Schedule::pad_einsum(const Block& block, const std::vector<int64_t>& multiples) {
  apply(step("pad_einsum", "block", block.name, "multiples", multiples));
}

std::pair<Loop, std::vector<Block>> Schedule::online_softmax(const Block& maximum, int64_t factor) {
  std::vector<std::string> names =
      apply(step("online_softmax", "block", maximum.name, "factor", factor));
  std::pair<Loop, std::vector<Block>> made{{names.at(0)}, {}};
  for (size_t i = 1; i < names.size(); ++i) made.second.push_back({std::move(names[i])});
  return made;
}

std::vector<Block> Schedule::split_softmax(const Block& maximum, int64_t parts) {
  return handles_of(apply(step("split_softmax", "block", maximum.name, "parts", parts)));
}

void Schedule::compute_at(const Block& block, const Loop& loop) {
  apply(step("compute_at", "block", block.name, "loop", loop.name));
}

void Schedule::reverse_compute_at(const Block& block, const Loop& loop) {
  apply(step("reverse_compute_at", "block", block.name, "loop", loop.name));
}

void Schedule::compute_inline(const Block& block) {
  apply(step("compute_inline", "block", block.name));
}

void Schedule::reverse_compute_inline(const Block& block) {
  apply(step("reverse_compute_inline", "block", block.name));
}

Block Schedule::cache_read(const Block& block, const std::string& buffer, Scope scope) {
  return {apply(step("cache_read", "block", block.name, "buffer", buffer, "scope", scope)).at(0)};
}

Block Schedule::cache_write(const Block& block, const std::string& buffer, Scope scope) {
  return {apply(step("cache_write", "block", block.name, "buffer", buffer, "scope", scope)).at(0)};
}

Block Schedule::cache_lookup(const Block& block, const std::string& buffer, Scope scope) {
  return {apply(step("cache_lookup", "block", block.name, "buffer", buffer, "scope", scope)).at(0)};
}

void Schedule::set_scope(const std::string& buffer, Scope scope) {
  apply(step("set_scope", "buffer", buffer, "scope", scope));
}

void Schedule::transform_layout(const std::string& buffer, const IndexMap& map) {
  apply(step("transform_layout", "buffer", buffer, "map", map));
}

void Schedule::transform_block_layout(const Block& block, const IndexMap& map) {
  apply(step("transform_block_layout", "block", block.name, "map", map));
}

Block Schedule::reindex(const Block& block, const std::string& buffer) {
  return {apply(step("reindex", "block", block.name, "buffer", buffer)).at(0)};
}

void Schedule::precompute(const Block& block) { apply(step("precompute", "block", block.name)); }

std::vector<Block> Schedule::convert_operand(const Block& block, const std::string& buffer,
                                             ElemType type, int64_t offset) {
  return handles_of(apply(step("convert_operand", "block", block.name, "buffer", buffer, "type",
                               to_string(type), "offset", offset)));
}

Block Schedule::widen_operand(const std::string& buffer, ElemType type, int64_t offset) {
  return {apply(step("widen_operand", "buffer", buffer, "type", to_string(type), "offset", offset))
              .at(0)};
}

void Schedule::store_halves(const Block& block, ElemType type) {
  apply(step("store_halves", "block", block.name, "type", to_string(type)));
}

void Schedule::pad_values(const Block& block, const std::vector<int64_t>& multiples) {
  apply(step("pad_values", "block", block.name, "multiples", multiples));
}

void Schedule::store_rounded(const Block& block) {
  apply(step("store_rounded", "block", block.name));
}

void Schedule::unit_index(const Block& block, const std::string& buffer, size_t dim,
                          const std::string& iterator) {
  apply(step("unit_index", "block", block.name, "buffer", buffer, "dim", static_cast<int64_t>(dim),
             "iterator", iterator));
}

void Schedule::deduplicate(const Block& block, const Block& like) {
  apply(step("deduplicate", "block", block.name, "like", like.name));
}

void Schedule::unscale(const Block& block, ElemType type) {
  apply(step("unscale", "block", block.name, "type", to_string(type)));
}

std::vector<Block> Schedule::factor_scale(const Block& block, const Loop& loop, ElemType type) {
  return handles_of(
      apply(step("factor_scale", "block", block.name, "loop", loop.name, "type", to_string(type))));
}

std::vector<Block> Schedule::pad_groups(const Block& block, const Block& value, int64_t group,
                                        int64_t to) {
  return handles_of(apply(
      step("pad_groups", "block", block.name, "value", value.name, "group", group, "to", to)));
}

void Schedule::tensorize(const Loop& loop, const std::string& intrinsic,
                         const std::string& computes) {
  apply(step("tensorize", "loop", loop.name, "intrinsic", intrinsic, "computes", computes));
}

void Schedule::prepack(const std::string& buffer, const IndexMap& map) {
  apply(step("prepack", "buffer", buffer, "map", map));
}

std::vector<std::string> Schedule::compress_operand(const Block& block, const std::string& operand,
                                                    const std::string& weight, int64_t keep,
                                                    int64_t of, int64_t vector) {
  return apply(step("compress_operand", "block", block.name, "operand", operand, "weight", weight,
                    "keep", keep, "of", of, "vector", vector));
}

void Schedule::compress_nm(const Block& block, const std::string& buffer, int64_t keep, int64_t of,
                           int64_t vector) {
  apply(step("compress_nm", "block", block.name, "buffer", buffer, "keep", keep, "of", of, "vector",
             vector));
}

}  // namespace tilewright
