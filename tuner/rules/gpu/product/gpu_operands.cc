#include "tuner/rules/gpu/product/gpu_operands.h"

#include <utility>
#include <vector>

#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/weight/gpu_grouped.h"

namespace tilewright {
namespace {

// Makes each tile of the weight contiguous, with its elements in order.
void lay_by_tiles(RuleContext& c, const TensorTileSizes& tile, const std::string& weight,
                  bool along_k) {
  const int64_t rows = along_k ? tile.n : tile.k, columns = along_k ? tile.k : tile.n;
  c.s.prepack(weight, IndexMap::make(2, [&](const std::vector<Var>& x) {
                return std::vector<Expr>{floordiv(x[0], rows), floordiv(x[1], columns),
                                         floormod(x[0], rows), floormod(x[1], columns)};
              }));
}

// The same, with each matrix of 8 columns by 16 bytes along k contiguous, in memory and in shared
// memory. A thread copies 16 contiguous bytes. The 8 rows that ldmatrix reads at once are 128 bytes
// across all banks, without swizzle or padding. Returns the vector width of a copy.
int64_t lay_by_matrices(RuleContext& c, const GpuProductPlan& plan, const std::string& weight,
                        bool along_k, const std::string& staged) {
  constexpr int64_t kColumns = 8;
  const int64_t piece = kAccessBits / plan.row->operand_bits(), n = plan.tile.n, k = plan.tile.k;
  const size_t at_n = along_k ? 0 : 1, at_k = 1 - at_n;
  auto matrices = [=](const Expr& x_n, const Expr& x_k) {
    return std::vector<Expr>{floordiv(x_n, kColumns), floordiv(x_k, piece), floormod(x_n, kColumns),
                             floormod(x_k, piece)};
  };
  c.s.prepack(weight, IndexMap::make(2, [&](const std::vector<Var>& x) {
                std::vector<Expr> place = {floordiv(x[at_n], n), floordiv(x[at_k], k)};
                for (const Expr& e : matrices(floormod(x[at_n], n), floormod(x[at_k], k))) {
                  place.push_back(e);
                }
                return place;
              }));
  const IndexMap shared =
      IndexMap::make(2, [&](const std::vector<Var>& x) { return matrices(x[at_n], x[at_k]); });
  c.s.transform_layout(staged, shared);
  c.s.transform_block_layout(gpu_writer(c.s, staged), shared);
  return piece;
}

void lay_by_terms(RuleContext& c, const std::string& operand) {
  c.s.transform_layout(operand, IndexMap::make(2, [](const std::vector<Var>& x) {
                         return std::vector<Expr>{x[1], x[0]};
                       }));
}

// Whether the activations have partial tiles along rows (always, if rows are dynamic) or along k.
bool pads_rows_or_terms(const RuleContext& c, const GpuProduct& p, const TensorTileSizes& tile) {
  auto rows = as_int(c.s.node(p.block).iters[static_cast<size_t>(p.roles.i)].extent);
  return !rows || *rows % tile.m != 0 || p.weights.front().k % tile.k != 0;
}

// A kernel of its own transposes staged and padded activations, tile by tile. The product's copies
// start at multiples of 16 bytes and need no condition, for any number of rows.
void transpose_padded(RuleContext& c, GpuProduct& p, int64_t rows) {
  c.s.set_scope(p.roles.a, Scope::Global);
  c.s.transform_layout(p.roles.a, IndexMap::make(2, [&](const std::vector<Var>& x) {
                         return std::vector<Expr>{floordiv(x[0], rows), x[1], floormod(x[0], rows)};
                       }));
  p.roles.a = c.s.output(c.s.cache_read(p.block, p.roles.a, Scope::Shared))->name;
}

}  // namespace

GpuVectors gpu_stage_operands_of(RuleContext& c, GpuProduct& p, const GpuProductPlan& plan) {
  const TensorTileSizes& tile = plan.tile;
  const bool is_ahead = plan.transposed == kAhead;
  const bool pads = is_ahead && pads_rows_or_terms(c, p, tile);
  if (is_ahead && !pads) {
    p.roles.a = c.s.output(c.s.cache_read(p.block, p.roles.a, Scope::Global))->name;
    lay_by_terms(c, p.roles.a);
  }
  const BlockNode& n = c.s.node(p.block);
  const std::string weight = p.roles.b;
  const bool along_k = plain_iterator(n, indices_of(n, weight).back()) == p.roles.k;
  const auto [a, b] = gpu_row_vectors(c, p.block, p.roles);
  GpuVectors vectors{a, b};
  gpu_stage_operands(c, p.block, p.roles, tile.m * plan.cluster.rows, tile.n * plan.cluster.columns,
                     tile.k, p.is_packed() ? Scope::Register : Scope::Shared);
  if (pads) {
    transpose_padded(c, p, tile.m);
    vectors.a = kAccessBits / bits_of(p.weights.front().operand);
  }
  if (plan.transposed == kByTile) lay_by_terms(c, p.roles.a);
  using Layout = GpuRoles::WeightLayout;
  if (p.roles.weight == Layout::Tiles) lay_by_tiles(c, tile, weight, along_k);
  if (p.roles.weight == Layout::Matrices) {
    vectors.b = lay_by_matrices(c, plan, weight, along_k, p.roles.b);
  }
  return vectors;
}

PackedWeight::PackedWeight(RuleContext& c, const Block& product, const std::string& elements,
                           const Packable& weight, const TensorTileSizes& tile, int64_t chunk)
    : c_(c), w_(weight), layout_(packed_layout(tile.n, w_.kept(chunk), bits_of(w_.codes), w_.row)) {
  const WeightFormat& format = w_.format;
  const int rank = w_.rank(), column = format.column_dim, k = format.k_dims[0];
  if (w_.value) c_.s.compute_inline(*w_.value);
  elements_ = gpu_writer(c_.s, elements);
  const std::string stored = w_.is_compressed() ? compress(product, elements, tile) : format.weight;
  if (w_.value) c_.s.unscale(elements_, w_.doubled ? ElemType::f32 : w_.operand);
  const int first = w_.doubled ? 1 : 0;  // offset of the weight's dimensions
  if (w_.doubled) c_.s.store_halves(elements_, w_.operand);
  gpu_lay_out(c_, elements, w_.row.a(), first + column, first + k);
  c_.s.prepack(stored, layout_.map(rank, column, k));
  shared_ = gpu_read_shared(c_, elements_, gpu_codes_of(c_, elements_, format));
  codes_ = c_.s.cache_read(elements_, c_.s.output(shared_)->name, Scope::Register);
}

std::string PackedWeight::compress(const Block& product, const std::string& elements,
                                   const TensorTileSizes& tile) {
  const WeightFormat& format = w_.format;
  const int rank = 2, column = format.column_dim, k = format.k_dims[0];
  const int64_t rows = w_.kept(tile.k);
  const std::vector<std::string> kept =
      c_.s.compress_operand(product, elements, format.weight, w_.keep, w_.of, w_.vector);
  const IndexMap map = w_.sparse ? metadata_map(*w_.sparse, rank, column, k, tile.n, rows)
                                 : places_map(rank, column, k, w_.vector, tile.n, rows);
  places_.emplace(c_, product, kept[1], map, w_.sparse != nullptr);
  return kept[0];
}

void PackedWeight::place(const Loop& k_outer, const std::optional<Loop>& chunk,
                         const GpuTileCopies& copies, int64_t warps) {
  c_.s.compute_at(elements_, chunk.value_or(k_outer));
  unpack(chunk ? 3 : 2, warps);
  c_.s.compute_at(shared_, k_outer);
  if (places_) places_->place(k_outer, copies, warps);
}

void PackedWeight::unpack(size_t around, int64_t warps) {
  const std::vector<Loop> loops = c_.s.loops(elements_);
  const bool by_k = w_.format.k_dims[0] < w_.format.column_dim;
  const Loop along_n = by_k ? loops.back() : loops.end()[-2];
  const Loop along_k = by_k ? loops.end()[-2] : loops.back();
  const std::vector<Loop> n = c_.s.split(along_n, {warps, -1, kWeightRows});
  const std::vector<Loop> k = c_.s.split(along_k, {-1, layout_.fragments, w_.row.k});
  std::vector<Loop> own = {n[1], k[0], k[1]};
  if (w_.doubled) {  // both of one code; loops over stacks stay outside
    std::vector<Loop> order(loops.begin() + static_cast<long>(around) + 1, loops.end() - 2);
    own.push_back(loops[around]);
    order.push_back(loops[around]);
    c_.s.reorder(order);
  }
  gpu_bind_lanes(c_, w_.row.a(), n[0], own, n[2], k[2]);
  c_.s.compute_at(codes_, k[0]);
  c_.s.vectorize(c_.s.loops(codes_).back());
}

void PackedWeight::stage_scales(const Block& sums, const Loop& k_outer,
                                const GpuTileCopies& copies) const {
  for (const auto& [reader, buffer] :
       {std::pair{elements_, w_.format.zero}, {sums, w_.format.scale}}) {
    auto elem = gpu_param_elem(c_.s, buffer);
    if (!elem) continue;
    const Block copy = gpu_read_shared(c_, reader, buffer);
    c_.s.compute_at(copy, k_outer);
    copies.carry_out(c_, c_.s.output(copy)->name, kAccessBits / bits_of(*elem));
  }
}

void PackedWeight::copy_codes(const GpuTileCopies& copies) const {
  copies.carry_out(c_, c_.s.output(shared_)->name, kAccessBits / bits_of(w_.codes));
}

}  // namespace tilewright
