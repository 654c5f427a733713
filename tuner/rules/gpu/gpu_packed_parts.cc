#include "tuner/rules/gpu/gpu_packed_parts.h"

#include <utility>

#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/copy/gpu_tensor_copies.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_packed_layout.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_tiles.h"
#include "tuner/rules/gpu/weight/gpu_grouped.h"

namespace tilewright {

void gpu_unpack(RuleContext& c, const Block& elements, const Block& codes, const Packable& weight,
                const PackedLayout& layout, size_t around, int64_t warps) {
  const std::vector<Loop> loops = c.s.loops(elements);
  const bool by_k = weight.format.k_dims[0] < weight.format.column_dim;
  const Loop along_n = by_k ? loops.back() : loops.end()[-2];
  const Loop along_k = by_k ? loops.end()[-2] : loops.back();
  const std::vector<Loop> n = c.s.split(along_n, {warps, -1, kWeightRows});
  const std::vector<Loop> k = c.s.split(along_k, {-1, layout.fragments, layout.row->k});
  std::vector<Loop> own = {n[1], k[0], k[1]};
  if (weight.doubled) {  // both of one code; loops over stacks stay outside
    std::vector<Loop> order(loops.begin() + static_cast<long>(around) + 1, loops.end() - 2);
    own.push_back(loops[around]);
    order.push_back(loops[around]);
    c.s.reorder(order);
  }
  gpu_bind_lanes(c, layout.row->a(), n[0], own, n[2], k[2]);
  c.s.compute_at(codes, k[0]);
  c.s.vectorize(c.s.loops(codes).back());
}

void gpu_store_packed_rows(RuleContext& c, const Block& last, int64_t threads, int64_t vector) {
  const int64_t columns = as_int(c.s.output(last)->shape.back()).value();
  std::vector<Loop> loops = c.s.loops(last);
  Loop all = gpu_fused(c, {loops.begin() + 1, loops.end()});
  while (columns % vector != 0) vector /= 2;
  while (threads * vector > as_int(c.s.node(all).extent).value()) threads /= 2;
  std::vector<Loop> parts = c.s.split(all, {-1, threads, vector});
  c.s.unroll(parts[0]);
  c.s.bind(parts[1], ForKind::ThreadX);
  c.s.vectorize(parts[2]);
}

bool gpu_may_stage_scales(const RuleContext& c, const Packable& weight, int64_t columns,
                          int64_t tile_n) {
  auto in_pieces = [&](const std::string& buffer) {
    auto elem = gpu_param_elem(c.s, buffer);
    return !elem || tile_n * bits_of(*elem) % 128 == 0;
  };
  return weight.group > 0 && !weight.is_compressed() && columns % tile_n == 0 &&
         weight.k % weight.group == 0 && in_pieces(weight.format.scale) &&
         in_pieces(weight.format.zero);
}

void gpu_stage_scales(RuleContext& c, const ScaleReaders& readers, const WeightFormat& format,
                      const Loop& k_outer, const GpuTileCopies& copies) {
  const std::pair<Block, std::string> shared[] = {{readers.elements, format.zero},
                                                  {readers.sums, format.scale}};
  for (const auto& [reader, buffer] : shared) {
    auto elem = gpu_param_elem(c.s, buffer);
    if (!elem) continue;
    Block copy = gpu_read_shared(c, reader, buffer);
    c.s.compute_at(copy, k_outer);
    copies.carry_out(c, c.s.output(copy)->name, 128 / bits_of(*elem));
  }
}

}  // namespace tilewright
