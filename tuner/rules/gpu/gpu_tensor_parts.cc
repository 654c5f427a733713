#include "tuner/rules/gpu/gpu_tensor_parts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "codegen/cuda/instructions/cuda_stmatrix.h"
#include "ir/visitor.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {

namespace {

// Lays out an array by gpu_in_spans(), and the block that writes it.
void lay_in_spans(RuleContext& c, const std::string& operand, int64_t span) {
  const Block writer = gpu_writer(c.s, operand);
  const IndexMap map = gpu_in_spans(c.s.output(writer)->rank(), span);
  c.s.transform_layout(operand, map);
  c.s.transform_block_layout(writer, map);
}

// Whether the operand is contiguous along the iterator `k`, as a whole or inside swizzle atoms.
bool runs_along(const BlockNode& n, const std::string& operand, int k) {
  return uses_var(indices_of(n, operand).back(), n.iters[static_cast<size_t>(k)].var);
}

}  // namespace

IndexMap gpu_in_spans(int rank, int64_t span) {
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    std::vector<Expr> out(x.begin(), x.end() - 2);
    out.push_back(floordiv(x.back(), span));
    out.push_back(x[x.size() - 2]);
    out.push_back(floormod(x.back(), span));
    return out;
  });
}

ElemType gpu_result_elem(const RuleContext& c, const Block& block) {
  return c.s.output(gpu_taker_of(c.s, block).value_or(block))->elem;
}

std::vector<std::string> gpu_ways_to_store(const RuleContext& c, const Block& block,
                                           const TensorTileSizes& tile, const Expr& rows,
                                           const Expr& columns, int instruction_rows) {
  std::vector<std::string> ways = {"direct", "shared"};
  constexpr int64_t kMatrix = 8;
  auto divides = [](int64_t size, const Expr& extent) {
    auto n = as_int(extent);
    return n && *n % size == 0;
  };
  bool whole = divides(tile.m, rows) && divides(tile.n, columns);
  bool by_matrices = has_stmatrix(c.input.target.gpu) && whole && instruction_rows == 2 * kMatrix &&
                     tile.warp_n % (2 * kMatrix) == 0 && bits_of(gpu_result_elem(c, block)) == 16;
  if (by_matrices) ways.emplace_back("stmatrix");
  return ways;
}

void gpu_lay_along_terms(RuleContext& c, const Block& block, const std::string& operand, int k) {
  const BlockNode& n = c.s.node(block);
  const bool transposed_later = bits_of(read_elem(n, operand)) == 16;
  if (transposed_later || runs_along(n, operand, k)) return;
  auto rank = static_cast<int>(indices_of(n, operand).size());
  c.s.transform_layout(operand, IndexMap::make(rank, [](const std::vector<Var>& x) {
                         std::vector<Expr> out(x.begin(), x.end());
                         std::swap(out[out.size() - 2], out.back());
                         return out;
                       }));
}

void gpu_lay_in_spans(RuleContext& c, const Block& block, const std::string& operand, int64_t size,
                      int k) {
  const BlockNode& n = c.s.node(block);
  const int64_t span = kSpanBytes * 8 / bits_of(read_elem(n, operand));
  if (runs_along(n, operand, k) || size <= span) return;
  lay_in_spans(c, operand, span);
}

void gpu_lay_terms_in_spans(RuleContext& c, const std::string& operand, int64_t span) {
  lay_in_spans(c, operand, span);
}

void gpu_lay_out(RuleContext& c, const std::string& buffer, const Fragment& f, int row,
                 int column) {
  const int rank = std::max(row, column) + 1;
  c.s.transform_layout(buffer, on_dimensions(f.tiles(), rank, row, column));
}

void gpu_lay_out_sums(RuleContext& c, const Block& block, int rows, bool are_swapped) {
  const Buffer sums = c.s.output(block);
  const int last = sums->rank() - 1;
  gpu_lay_out(c, sums->name, accumulators(rows), last - (are_swapped ? 0 : 1),
              last - (are_swapped ? 1 : 0));
}

void gpu_bind_lanes(RuleContext& c, const Fragment& f, const Loop& warp,
                    const std::vector<Loop>& own, const Loop& row, const Loop& column,
                    bool is_vector) {
  const auto digits = f.place().digits({f.rows(), f.columns()});
  std::map<std::pair<int, int64_t>, Loop> loops;  // by input and unit
  for (int input = 0; input < 2; ++input) {
    std::map<int64_t, int64_t, std::greater<>> extents;  // by unit
    for (const auto& output : digits) {
      for (const IndexMap::Digit& d : output) {
        if (d.input == input) extents[d.unit] = d.extent;
      }
    }
    std::vector<int64_t> factors;
    for (const auto& [unit, extent] : extents) factors.push_back(extent);
    std::vector<Loop> parts = {input == 0 ? row : column};
    if (factors.size() > 1) parts = c.s.split(parts[0], factors);
    for (auto part = parts.begin(); const auto& [unit, extent] : extents) {
      loops[{input, unit}] = *part++;
    }
  }
  auto loops_of = [&](std::vector<Loop> all, const std::vector<IndexMap::Digit>& of) {
    for (const IndexMap::Digit& d : of) all.push_back(loops.at({d.input, d.unit}));
    return all;
  };
  const std::vector<Loop> lanes = loops_of({warp}, digits[0]), elements = loops_of(own, digits[1]);
  c.s.reorder(gpu_in_order({lanes, elements}));
  c.s.bind(c.s.fuse(lanes), ForKind::ThreadX);
  for (size_t l = 0; l + 1 < elements.size(); ++l) c.s.unroll(elements[l]);
  is_vector ? c.s.vectorize(elements.back()) : c.s.unroll(elements.back());
}

Loop gpu_first_of(const RuleContext& c, const std::vector<Loop>& loops) {
  return *std::find_if(loops.begin(), loops.end(),
                       [&](const Loop& l) { return !is_int(c.s.node(l).extent, 1); });
}

void gpu_bind_sums(RuleContext& c, const Block& block, size_t around, const Instruction& row,
                   bool are_swapped) {
  const std::vector<Loop> loops = c.s.loops(block);
  std::vector<Loop> fragments(loops.begin() + static_cast<long>(around) + 1, loops.end() - 2);
  Loop column = loops.back();
  if (row.is_wgmma()) {  // whose loop runs over all columns
    const std::vector<Loop> parts = c.s.split(column, {-1, kFragmentColumns});
    fragments.push_back(parts[0]);
    column = parts[1];
  }
  gpu_bind_lanes(c, accumulators(row.m / row.warps()), loops[around], fragments, loops.end()[-2],
                 column, !are_swapped);
}

void gpu_store_rows(RuleContext& c, const Block& copy, const TensorTileSizes& tile) {
  const Buffer& result = c.s.output(copy);
  int64_t vector = gpu_vector(c, copy, largest_extent(c.s, result->shape.back()));
  std::vector<Loop> loops = c.s.loops(copy);
  int64_t along = std::min(tile.n / vector, tile.threads());
  // If the vectors per row are not a power of two, the largest number of threads that divides both
  // shares a row.
  while (tile.n / vector % along != 0 || tile.threads() % along != 0) --along;
  std::vector<Loop> i = c.s.split(loops[loops.size() - 2], {-1, tile.threads() / along});
  std::vector<Loop> j = c.s.split(loops.back(), {-1, along, vector});
  c.s.reorder({i[1], j[1], i[0], j[0], j[2]});
  c.s.bind(c.s.fuse({i[1], j[1]}), ForKind::ThreadX);
  c.s.unroll(i[0]);
  c.s.unroll(j[0]);
  c.s.vectorize(j[2]);
}

void gpu_store_packed_rows(RuleContext& c, const Block& last, int64_t threads, int64_t vector) {
  const int64_t columns = as_int(c.s.output(last)->shape.back()).value();
  std::vector<Loop> loops = c.s.loops(last);
  Loop all = gpu_fused(c, {loops.begin() + 1, loops.end()});
  while (columns % vector != 0) vector /= 2;
  while (threads * vector > as_int(c.s.node(all).extent).value()) threads /= 2;
  gpu_deal(c, all, threads, vector);
}

}  // namespace tilewright
