#include "tuner/rules/gpu/gpu_siblings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/compare.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packable.h"
#include "tuner/rules/gpu/product/gpu_packed.h"
#include "tuner/rules/stored_weight.h"

namespace tilewright {
namespace {

constexpr const char* kJoined = "joined";
constexpr int64_t kRowsBesideWeights =
    16;                              // rows up to which reading the weights is the bottleneck
constexpr size_t kMostProducts = 4;  // whose accumulators registers may hold

std::vector<int> iterators(const BlockNode& n, const std::vector<Expr>& indices) {
  std::vector<int> found;
  for (const Expr& e : indices) found.push_back(plain_iterator(n, e));
  return found;
}

// The only reader of the product, an elementwise block.
std::optional<Block> reader_of(const Schedule& s, const Block& product) {
  const std::string result = s.output(product)->name;
  const std::vector<Block> readers = s.consumers(product);
  const bool is_read_once = readers.size() == 1 && !is_output(s, result) &&
                            analyze(s, readers[0]).role == BlockRole::Injective;
  if (!is_read_once) return std::nullopt;
  return readers[0];
}

// Whether the two results have the same layout and are read in the same way.
bool results_agree(const Schedule& s, const Block& a, const Block& b, const Block& reader) {
  const StoreNode &x = store_of(s.node(a)), &y = store_of(s.node(b));
  const BlockNode& r = s.node(reader);
  auto is_read_at = [&](const StoreNode& of) {
    return iterators(r, indices_of(r, of.buffer->name));
  };
  return x.buffer->elem == y.buffer->elem &&
         iterators(s.node(a), x.indices) == iterators(s.node(b), y.indices) &&
         covers_iterators(r, x.buffer->name) && is_read_at(x) == is_read_at(y);
}

// Whether `b` is a product of the same A as `a` that differs in its other operand only.
bool are_siblings(const Schedule& s, const Block& a, const GpuRoles& of_a, const Block& b,
                  const GpuRoles& of_b) {
  const BlockNode &x = s.node(a), &y = s.node(b);
  const bool same_roles = of_a.a == of_b.a && of_a.b != of_b.b && of_a.i == of_b.i &&
                          of_a.j == of_b.j && of_a.k == of_b.k && of_a.batch == of_b.batch;
  if (!same_roles || x.iters.size() != y.iters.size()) return false;
  for (size_t i = 0; i < x.iters.size(); ++i) {
    if (!equal(x.iters[i].extent, y.iters[i].extent)) return false;
  }
  auto reads_at = [](const BlockNode& n, const std::string& operand) {
    return iterators(n, indices_of(n, operand));
  };
  return read_elem(x, of_a.b) == read_elem(y, of_b.b) &&
         reads_at(x, of_a.a) == reads_at(y, of_b.a) && reads_at(x, of_a.b) == reads_at(y, of_b.b);
}

// Whether an operand is a parameter or, with `values`, the dequantized values of a weight.
bool is_given(const Schedule& s, const std::string& operand, bool values) {
  if (find_param(s, operand) || !values) return find_param(s, operand) != nullptr;
  const std::vector<std::string> inputs = inputs_of(s.node(gpu_writer(s, operand)));
  return std::ranges::all_of(inputs, [&](const std::string& name) { return is_weight(s, name); });
}

// gpu_siblings_of(); with `values`, weights stored in a form of their own count, too.
std::optional<GpuRoles> siblings_among(const Schedule& s, const std::vector<Block>& products,
                                       bool values) {
  const Block& first = products.front();
  std::optional<GpuRoles> roles = gpu_roles_of(s, first);
  const std::optional<Block> reader = reader_of(s, first);
  const bool reads_given = roles && find_param(s, roles->a) && is_given(s, roles->b, values);
  if (!reads_given || !reader || !results_agree(s, first, first, *reader)) return std::nullopt;
  for (size_t at = 1; at < products.size() && roles->siblings.size() + 1 < kMostProducts; ++at) {
    const std::optional<GpuRoles> next = gpu_roles_of(s, products[at]);
    const bool joins = next && reader_of(s, products[at]) == reader &&
                       is_given(s, next->b, values) &&
                       are_siblings(s, first, *roles, products[at], *next) &&
                       results_agree(s, first, products[at], *reader);
    if (!joins) break;
    roles->siblings.push_back({products[at], next->b});
  }
  return roles;
}

// The products' stored weights, if instructions take all of them from registers; otherwise empty. A
// weight with a sparsity pattern has its own variants.
std::vector<Packable> packed_weights(RuleContext& c, const Block& first, const GpuRoles& roles) {
  std::vector<Packable> weights;
  GpuRoles own = roles;
  for (size_t p = 0; p < roles.siblings.size() + 1; ++p) {
    const Block& block = p == 0 ? first : roles.siblings[p - 1].block;
    if (p > 0) own.b = roles.siblings[p - 1].b;
    WeightContext of_block(c, block);
    const bool is_sparse = of_block.context().input.workload.weight->sparse();
    std::optional<Packable> weight;
    if (!is_sparse) weight = packable(of_block.context(), block, own, Multiplied::All);
    if (!weight) return {};
    weights.push_back(std::move(*weight));
  }
  return weights;
}

// Joins the leading products, if the trial chooses so. Returns the number of joined products.
size_t join_first(RuleContext& c, const std::vector<Block>& products) {
  const Block& first = products.front();
  // A stored weight is unpacked by kernels of its own.
  const bool is_stored = c.input.workload.weight.has_value();
  const std::optional<GpuRoles> roles = siblings_among(c.s, products, is_stored);
  if (!roles || roles->siblings.empty()) return 0;
  const BlockNode& n = c.s.node(first);
  auto most = [&](int iter) {
    return largest_extent(c.s, n.iters[static_cast<size_t>(iter)].extent);
  };
  const bool is_small = most(roles->i) <= 1 || most(roles->j) <= 1;
  const bool is_taken_in =
      can_take_in(c.s, gpu_last_product(first, *roles), *reader_of(c.s, first));
  if (is_small || !is_taken_in) return 0;
  std::vector<Packable> weights;
  if (is_stored) weights = packed_weights(c, first, *roles);
  const bool has_way = is_stored ? !weights.empty() : gpu_has_tensor_contraction(c, first, *roles);
  if (!has_way) return 0;
  std::vector<std::string> ways = {kJoined, kApart};
  // f32 operands would be split into three products, which must not be the first choice.
  const bool is_narrow = bits_of(read_elem(n, roles->a)) < 32;
  if (most(roles->i) <= kRowsBesideWeights || !is_narrow) std::swap(ways[0], ways[1]);
  if (c.t.choose(first.name + ".products", ways) == kApart) return 0;
  if (is_stored) {
    gpu_multiply_fragments(c, first, *roles, weights);
  } else {
    gpu_tensor_contraction(c, first, *roles);
  }
  return roles->siblings.size() + 1;
}

}  // namespace

std::optional<GpuRoles> gpu_siblings_of(const Schedule& s, const std::vector<Block>& products) {
  return siblings_among(s, products, false);
}

std::vector<Block> gpu_join_products(RuleContext& c, const std::vector<Block>& contractions) {
  std::vector<Block> left = contractions, apart;
  while (!left.empty()) {
    const size_t joined = join_first(c, left);
    if (joined == 0) apart.push_back(left.front());
    left.erase(left.begin(), left.begin() + static_cast<long>(std::max<size_t>(1, joined)));
  }
  return apart;
}

const Block& gpu_last_product(const Block& block, const GpuRoles& roles) {
  return roles.siblings.empty() ? block : roles.siblings.back().block;
}

std::vector<Block> gpu_products(const Block& block, const GpuRoles& roles) {
  std::vector<Block> products = {block};
  for (const GpuSibling& s : roles.siblings) products.push_back(s.block);
  return products;
}

void gpu_merge_loops(RuleContext& c, const std::vector<GpuProductLoops>& products) {
  if (products.size() < 2) return;
  std::vector<Loop> grids, terms;
  for (const GpuProductLoops& p : products) {
    grids.push_back(p.grid);
    terms.push_back(p.k_outer);
  }
  c.s.merge(grids);
  c.s.merge(terms);
}

}  // namespace tilewright
