#include "tuner/rules/gpu/gpu_roles.h"

#include <algorithm>

#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_siblings.h"

namespace tilewright {
namespace {

bool all_plain(const BlockNode& n, const std::vector<Expr>& indices) {
  return std::all_of(indices.begin(), indices.end(),
                     [&](const Expr& e) { return plain_iterator(n, e) >= 0; });
}

}  // namespace

std::optional<GpuRoles> gpu_roles_of(const Schedule& s, const Block& block) {
  const BlockNode& n = s.node(block);
  std::vector<std::string> inputs = inputs_of(n);
  if (inputs.size() != 2) return std::nullopt;
  const StoreNode& store = store_of(n);
  GpuRoles r;
  std::vector<Expr> a = indices_of(n, inputs[0]), b = indices_of(n, inputs[1]);
  if (!all_plain(n, a) || !all_plain(n, b) || !all_plain(n, store.indices)) return std::nullopt;
  for (size_t x = 0; x < n.iters.size(); ++x) {
    const IterVar& iter = n.iters[x];
    bool in_a = uses_iterator(a, iter), in_b = uses_iterator(b, iter),
         spatial = iter.kind == IterKind::Spatial;
    int* place = !spatial && in_a && in_b ? &r.k : spatial && in_a ? &r.i : &r.j;
    if (spatial && in_a && in_b) {
      r.batch.push_back(static_cast<int>(x));
    } else if ((!in_a && !in_b) || *place >= 0 || (!spatial && !(in_a && in_b))) {
      return std::nullopt;
    } else {
      *place = static_cast<int>(x);
    }
  }
  if (r.i < 0 || r.j < 0 || r.k < 0) return std::nullopt;
  r.a = inputs[0];
  r.b = inputs[1];
  // j runs along the result's rows.
  if (plain_iterator(n, store.indices.back()) == r.i) {
    std::swap(r.i, r.j);
    std::swap(r.a, r.b);
  }
  BlockFacts facts = analyze(s, block);
  for (size_t x = 0; x < n.iters.size(); ++x) {
    if (facts.dynamic[x] && static_cast<int>(x) != r.i) return std::nullopt;
  }
  return plain_iterator(n, store.indices.back()) == r.j ? std::optional(r) : std::nullopt;
}

namespace {

// Whether `reader` uses its iterators in another order as indices of `buffer`, so that tiles do not
// match.
bool reads_turned(const BlockNode& reader, const std::string& buffer) {
  bool turned = false;
  for_each_expr(store_of(reader).value, [&](const Expr& e) {
    auto* read = e.as<LoadNode>();
    if (!read || read->buffer->name != buffer) return;
    int last = -1;
    for (const Expr& index : read->indices) {
      const int at = plain_iterator(reader, index);
      turned |= at >= 0 && at < last;
      last = std::max(last, at);
    }
  });
  return turned;
}

}  // namespace

Loop gpu_loop_of(const Schedule& s, const Block& block, int iter) {
  const BlockNode& n = s.node(block);
  const auto at = static_cast<size_t>(iter);
  if (auto* loop = n.iters[at].binding.as<VarNode>()) return {loop->name};
  std::vector<Loop> loops = s.loops(block);
  if (loops.size() == n.iters.size()) return loops[at];
  throw ScheduleError(
      RefusalKind::BadStructure, "gpu rules",
      "iterator '" + n.iters[at].var.name() + "' of block '" + block.name + "' is bound to no loop",
      s.program());
}

namespace {

// Stages the operands of one product (gpu_stage_operands()), without its siblings.
void stage_operands(RuleContext& c, const Block& block, GpuRoles& roles,
                    const std::vector<int64_t>& multiples, Scope b_scope) {
  std::vector<std::string> before = inputs_of(c.s.node(block));
  c.s.pad_einsum(block, multiples);
  std::vector<std::string> after = inputs_of(c.s.node(block));
  for (std::string* operand : {&roles.a, &roles.b}) {
    auto at =
        static_cast<size_t>(std::find(before.begin(), before.end(), *operand) - before.begin());
    const Scope scope = operand == &roles.b ? b_scope : Scope::Shared;
    if (after[at] == *operand && !roles.is_gathered()) {
      Block copy = c.s.cache_read(block, *operand, scope);
      *operand = c.s.output(copy)->name;
      continue;
    }
    if (after[at] != *operand && roles.is_gathered()) c.s.compute_inline(gpu_writer(c.s, *operand));
    *operand = after[at];
    c.s.set_scope(*operand, scope);
  }
}

}  // namespace

void gpu_stage_operands(RuleContext& c, const Block& block, GpuRoles& roles, int64_t m, int64_t n,
                        int64_t k, Scope b_scope) {
  std::vector<int64_t> multiples(c.s.node(block).iters.size(), 1);
  multiples[static_cast<size_t>(roles.i)] = m;
  multiples[static_cast<size_t>(roles.j)] = n;
  multiples[static_cast<size_t>(roles.k)] = k;
  const GpuRoles as_they_lie = roles;
  stage_operands(c, block, roles, multiples, b_scope);
  for (GpuSibling& sibling : roles.siblings) {
    GpuRoles own = as_they_lie;
    own.b = sibling.b;
    stage_operands(c, sibling.block, own, multiples, b_scope);
    c.s.deduplicate(gpu_writer(c.s, own.a), gpu_writer(c.s, roles.a));
    sibling.b = own.b;
  }
}

namespace {

int64_t row_vector(RuleContext& c, const Block& block, const std::string& operand) {
  const BlockNode& n = c.s.node(block);
  int along = plain_iterator(n, indices_of(n, operand).back());
  auto extent = as_int(n.iters[static_cast<size_t>(along)].extent);
  if (!extent) return 1;
  int64_t lanes = 128 / bits_of(read_elem(n, operand));
  while (lanes > 1 && *extent % lanes != 0) lanes /= 2;
  return lanes;
}

}  // namespace

std::pair<int64_t, int64_t> gpu_row_vectors(RuleContext& c, const Block& block,
                                            const GpuRoles& roles) {
  if (roles.is_gathered()) return {roles.a_vector, roles.b_vector};
  return {row_vector(c, block, roles.a), row_vector(c, block, roles.b)};
}

std::optional<Block> gpu_taker_of(const Schedule& s, const Block& block) {
  const std::string result = s.output(block)->name;
  const std::vector<Block> readers = s.consumers(block);
  const bool may_take =
      readers.size() == 1 && !is_output(s, result) && can_take_in(s, block, readers[0]);
  if (!may_take || reads_turned(s.node(readers[0]), result)) return std::nullopt;
  return readers[0];
}

Block gpu_place_result(RuleContext& c, const Block& block) {
  std::string result = c.s.output(block)->name;
  const std::optional<Block> reader = gpu_taker_of(c.s, block);
  if (!reader) return c.s.cache_write(block, result, Scope::Register);
  // An unpadding copy is inlined into its reader. One that numbers the rows of several axes stays: it stores at
  // quotients and remainders.
  std::optional<Block> next = gpu_taker_of(c.s, *reader);
  const BlockNode& copy = c.s.node(*reader);
  if (next && !all_plain(copy, store_of(copy).indices)) next.reset();
  if (next) c.s.compute_inline(*reader);
  c.s.set_scope(result, Scope::Register);
  return next ? *next : *reader;
}

Block gpu_place_results(RuleContext& c, const Block& block, const GpuRoles& roles) {
  Block last = gpu_place_result(c, gpu_last_product(block, roles));
  for (const Block& product : gpu_products(block, roles)) {
    if (product == gpu_last_product(block, roles)) continue;
    // An unpadding copy is inlined into its reader, like that of the last product.
    const Block reader = c.s.consumers(product).at(0);
    if (!(reader == last)) c.s.compute_inline(reader);
    c.s.set_scope(c.s.output(product)->name, Scope::Register);
  }
  return last;
}

void gpu_share_copy(RuleContext& c, const std::string& buffer, int64_t threads, int64_t vector) {
  Block copy = gpu_writer(c.s, buffer);
  std::vector<Loop> loops = c.s.loops(copy);
  std::vector<Loop> own(loops.begin() + 2, loops.end());
  Loop all = gpu_fused(c, own);
  // Uses as many threads as divide the work evenly, so that no element is left over.
  int64_t pieces = as_int(c.s.node(all).extent).value() / vector;
  while (pieces % threads != 0) threads /= 2;
  gpu_deal(c, all, threads, vector);
}

}  // namespace tilewright
