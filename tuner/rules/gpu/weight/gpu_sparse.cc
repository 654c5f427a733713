#include "tuner/rules/gpu/weight/gpu_sparse.h"

#include <algorithm>

#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr int64_t kWeightColumns = 16;  // weight columns per fragment

// Whether a pattern keeps no more in each group of the instruction than that allows, whatever its
// own groups.
bool takes(const Instruction& row, const WeightFormat& format) {
  return format.sparse() && format.keep <= row.keep && format.of % row.of == 0;
}

}  // namespace

bool takes_packed(const Instruction& row, ElemType operand, ElemType sums, bool scaled) {
  return row.takes({operand, operand, sums}) ||
         (scaled && row.takes({operand, operand, ElemType::i32}));
}

const Instruction* gpu_sparse_row(const WeightFormat& format, int64_t k, ElemType operand,
                                  ElemType sums, bool scaled, const Target& target) {
  return first_row(sparse_mma_rows(), target.gpu.compute_capability, [&](const Instruction& row) {
    return takes_packed(row, operand, sums, scaled) && takes(row, format) && k % row.of == 0;
  });
}

// Positions in a tile are computed with powers of two. The operand is loaded by `ldmatrix`, which
// transposes 16-bit elements.
bool gpu_gathers(const WeightFormat& format, int64_t k, ElemType operand) {
  auto is_power = [](int64_t x) { return x > 0 && (x & (x - 1)) == 0; };
  return format.sparse() && format.keep < format.of && format.keep <= kWeightColumns &&
         is_power(format.keep) && is_power(format.of) && is_power(format.vector) &&
         format.vector >= kWeightColumns && k % format.of == 0 && bits_of(operand) == 16;
}

int64_t gpu_sparse_terms(const Instruction& row) { return int64_t{row.k} * row.selectors(); }

IndexMap metadata_map(const Instruction& row, int rank, int column, int k, int64_t tile_n,
                      int64_t tile_r) {
  return on_dimensions(row.metadata().packed(tile_n, tile_r, IndexMap::parse("(i) -> (i)")), rank,
                       column, k);
}

IndexMap places_map(int rank, int column, int k, int64_t vector, int64_t tile_n, int64_t tile_r) {
  const int64_t groups = std::max<int64_t>(1, tile_n / vector);
  return IndexMap::make(rank, [&](const std::vector<Var>& x) {
    const Expr &group = x[static_cast<size_t>(column)], &r = x[static_cast<size_t>(k)];
    return std::vector<Expr>{
        floordiv(group, Expr(groups)), floordiv(r, Expr(tile_r)),
        floormod(group, Expr(groups)) * Expr(tile_r) + floormod(r, Expr(tile_r))};
  });
}

GpuPlaces::GpuPlaces(RuleContext& c, const Block& block, const std::string& rows,
                     const IndexMap& map, bool in_registers)
    : c_(c) {
  c_.s.prepack(rows, map);
  shared_ = c_.s.cache_read(block, rows, Scope::Shared);
  if (!in_registers) return;
  words_ = c_.s.cache_read(block, c_.s.output(shared_)->name, Scope::Register);
  const Buffer words = c_.s.output(*words_);
  const int64_t in_word = kWordBits / bits_of(words->elem);
  c_.s.transform_layout(words->name, IndexMap::make(3, [&](const std::vector<Var>& x) {
                          return std::vector<Expr>{x[0], x[1],
                                                   floordiv(x[2], Expr(in_word * kWarp)),
                                                   floormod(floordiv(x[2], in_word), kWarp),
                                                   floormod(x[2], Expr(in_word))};
                        }));
}

void GpuPlaces::place(const Loop& k_outer, const GpuTileCopies& copies, int64_t warps) {
  if (words_) c_.s.compute_at(*words_, k_outer);
  c_.s.compute_at(shared_, k_outer);
  if (words_) bind_words(warps);
  const Buffer shared = c_.s.output(shared_);
  copies.carry_out(c_, shared->name, kAccessBits / bits_of(shared->elem));
}

void GpuPlaces::bind_words(int64_t warps) {
  const int64_t in_word = kWordBits / bits_of(c_.s.output(*words_)->elem);
  Loop all = c_.s.loops(*words_).back();
  const int64_t each = as_int(c_.s.node(all).extent).value() / (in_word * kWarp * warps);
  std::vector<Loop> parts = c_.s.split(all, {warps, each, kWarp, in_word});
  c_.s.reorder({parts[0], parts[2], parts[1], parts[3]});
  c_.s.bind(c_.s.fuse({parts[0], parts[2]}), ForKind::ThreadX);
  c_.s.unroll(parts[1]);
  c_.s.vectorize(parts[3]);
}

}  // namespace tilewright
