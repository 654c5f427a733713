// Builds a product with matrix instructions by its plan.
#include <algorithm>
#include <optional>
#include <utility>

#include "codegen/cuda/cuda_tensor_copy.h"
#include "codegen/cuda/instructions/cuda_instruction.h"
#include "codegen/cuda/instructions/cuda_mma.h"
#include "codegen/cuda/instructions/cuda_stmatrix.h"
#include "codegen/cuda/instructions/cuda_wgmma_nest.h"
#include "codegen/cuda_lowering.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/analysis.h"
#include "tuner/rules/gpu/gpu.h"
#include "tuner/rules/gpu/gpu_siblings.h"
#include "tuner/rules/gpu/gpu_tensor_parts.h"
#include "tuner/rules/gpu/gpu_units.h"
#include "tuner/rules/gpu/product/gpu_operands.h"
#include "tuner/rules/gpu/product/gpu_product.h"

namespace tilewright {
namespace {

using Staged = GpuEpilogue::Staged;

// One of the products of a tile of A, with its own B.
struct Part {
  Block block;
  std::string b;                            // operand B, staged
  std::optional<PackedWeight> weight = {};  // which becomes B in registers
  GpuProductLoops loops = {};
  std::optional<Loop> chunk = {};   // over what is unpacked and multiplied as one group
  std::optional<Loop> halves = {};  // over the two elements of a doubled code
  Block staged = {};                // copies accumulators to shared memory
};

// The loops of each level of an axis, outermost first; a family of instructions lacks some levels.
using Levels = std::vector<std::vector<Loop>>;

// Splits a loop by the factors; no loop stands for a factor of 0.
Levels split_levels(RuleContext& c, const Loop& loop, const std::vector<int64_t>& factors) {
  std::vector<int64_t> given = factors;
  std::erase(given, 0);
  const std::vector<Loop> loops = c.s.split(loop, given);
  Levels levels;
  size_t next = 0;
  for (int64_t factor : factors) {
    levels.emplace_back();
    if (factor != 0) levels.back() = {loops[next++]};
  }
  return levels;
}

// An axis of the result along the instruction's rows. Its levels: tiles (-1; 0 inside of one),
// warps or warpgroups, fragments of one, the warps of a warpgroup, rows of a warp. With swapped
// operands the warps of a warpgroup have no fragments besides their own.
Levels split_rows(RuleContext& c, const GpuProductPlan& plan, const Loop& loop, int64_t tiles) {
  const auto [size, warp] = plan.rows();
  const bool is_wgmma = plan.row->is_wgmma();
  const int64_t apart = is_wgmma && !plan.is_swapped ? plan.row->warps() : 1;
  return split_levels(
      c, loop,
      {tiles, size / warp, is_wgmma && plan.is_swapped ? 0 : warp / (apart * plan.warp_rows()),
       apart > 1 ? apart : 0, plan.warp_rows()});
}

// The same along the columns: tiles, warps or warpgroups, fragments of `inside` columns (0: none),
// columns of a fragment. With swapped operands each warp has all columns. The loop may run over a
// subtile alone, one of so many.
Levels split_columns(RuleContext& c, const GpuProductPlan& plan, const Loop& loop, int64_t tiles,
                     int64_t inside, int64_t subtiles = 1) {
  const auto [size, warp] = plan.columns();
  return split_levels(c, loop,
                      {tiles, plan.is_swapped ? 0 : size / warp,
                       inside > 0 ? warp / subtiles / inside : 0, inside > 0 ? inside : warp});
}

// Tiles of the result become blocks, which run down groups of tile rows (of the instruction), then
// along them. The tiles of a cluster are neighbours.
std::vector<Loop> grid_of(RuleContext& c, const GpuProductPlan& plan,
                          const std::vector<Loop>& batch, const Loop& rows, const Loop& columns) {
  const auto [along_i, along_j] = plan.cluster;
  Loop row = rows, column = columns;
  std::vector<Loop> cluster;
  for (auto [loop, tiles] : {std::pair{&row, plan.is_swapped ? along_j : along_i},
                             {&column, plan.is_swapped ? along_i : along_j}}) {
    if (tiles == 1) continue;
    const std::vector<Loop> parts = c.s.split(*loop, {-1, tiles});
    *loop = parts[0];
    cluster = {parts[1]};
  }
  std::vector<Loop> group;
  if (plan.order.group > 1) {
    group = c.s.split(row, {-1, plan.order.group});
    row = group[0];
    group.erase(group.begin());
  }
  return gpu_in_order({batch, {row, column}, group, cluster});
}

// Splits k into tiles, groups of instructions (swizzle atoms, or what is unpacked at a time),
// instructions, and the k of one. There may be no groups.
std::vector<Loop> split_terms(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan,
                              const Loop& k) {
  int64_t terms = plan.row->k, kept = terms;
  if (p.is_packed()) {
    terms = p.weights.front().terms();
    kept = p.weights.front().kept(terms);
  }
  const bool has_chunks =
      p.is_packed() ? plan.row->is_wgmma() : plan.chunk > terms && plan.chunk < plan.tile.k;
  if (!has_chunks) return c.s.split(k, {-1, plan.tile.k / terms, kept});
  return c.s.split(k, {-1, plan.tile.k / plan.chunk, plan.chunk / terms, kept});
}

// Loops b, i, j, k become: grid, k tiles (the mainloop), warps, instructions, fragments of rows and
// columns, loops inside an instruction. A group of k that is unpacked at a time stands outside
// warps.
void tile_loops(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan, Part& part) {
  auto loop_of = [&](int iter) { return gpu_loop_of(c.s, part.block, iter); };
  const bool is_wgmma = plan.row->is_wgmma();
  std::vector<Loop> batch;
  for (int b : p.roles.batch) batch.push_back(loop_of(b));
  Loop row = loop_of(p.roles.i), column = loop_of(p.roles.j);
  if (plan.is_swapped) std::swap(row, column);
  const Levels m = split_rows(c, plan, row, -1),
               n = split_columns(c, plan, column, -1, is_wgmma ? 0 : kFragmentColumns);
  const std::vector<Loop> k = split_terms(c, p, plan, loop_of(p.roles.k));
  const std::vector<Loop> grid = grid_of(c, plan, batch, m[0][0], n[0][0]);
  std::vector<Loop> steps(k.begin() + 1, k.end() - 1), order = grid;
  order.push_back(k[0]);
  if (p.is_packed() && is_wgmma) {
    part.chunk = steps.front();
    steps.erase(steps.begin());
    order.push_back(*part.chunk);
  }
  std::vector<Loop> halves;
  if (p.is_packed() && p.weights.front().doubled) {
    part.halves = Loop{Var(c.s.node(part.block).iters.back().binding).name()};
    halves = {*part.halves};
  }
  const std::vector<Loop> warps = gpu_in_order({m[1], n[1], m[3]});
  const Levels inside = {m[2], n[2], m[4], n[3], {k.back()}};
  c.s.reorder(gpu_in_order(
      {order, warps, is_wgmma ? halves : steps, is_wgmma ? steps : halves, gpu_in_order(inside)}));
  const Loop marked = gpu_first_of(
      c, gpu_in_order({is_wgmma ? steps : Levels::value_type{}, gpu_in_order(inside)}));
  const Loop tiles = gpu_fused(c, grid);
  part.loops = {tiles, k[0], steps.front(), gpu_fused(c, warps), marked};
}

// Binds a block over all accumulators, under its first `around` loops.
void bind_sums(RuleContext& c, const GpuProductPlan& plan, const Block& block, size_t around) {
  gpu_bind_sums(c, block, around, *plan.row, plan.is_swapped);
}

// Binds a block over the result tile, whose last loops are rows and columns, to the threads that
// hold its accumulators. Two adjacent fragments are four matrices of stmatrix.
void bind_result(RuleContext& c, const GpuProductPlan& plan, const Block& block) {
  const std::vector<Loop> loops = c.s.loops(block);
  Loop row = loops.end()[-2], column = loops.back();
  if (plan.is_swapped) std::swap(row, column);
  const Levels m = split_rows(c, plan, row, 0),
               n = split_columns(c, plan, column, 0, kFragmentColumns, plan.epilogue.subtiles);
  const std::vector<Loop> warps = gpu_in_order({m[1], n[1], m[3]});
  std::vector<Loop> fragments = gpu_in_order({m[2], n[2]});
  const Loop last_row = m[4][0], last_column = n[3][0];
  c.s.reorder(gpu_in_order({warps, fragments, {last_row, last_column}}));
  if (plan.epilogue.by_matrices) {
    const std::vector<Loop> pairs = c.s.split(fragments.back(), {-1, 2});
    fragments.back() = pairs[0];
    fragments.push_back(pairs[1]);
    c.s.annotate(pairs[1], kInstructionKey, std::string(kStmatrix));
  }
  gpu_bind_lanes(c, accumulators(static_cast<int>(plan.warp_rows())), gpu_fused(c, warps),
                 fragments, last_row, last_column, !plan.is_swapped);
}

// Lays out operands in shared memory as instructions read them, and weights in registers.
void lay_out_operands(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan,
                      std::vector<Part>& parts) {
  if (plan.chunk < plan.tile.k) gpu_lay_terms_in_spans(c, p.roles.a, plan.chunk);
  auto lay_out = [&](const Block& block, const std::string& operand, int64_t size) {
    gpu_lay_along_terms(c, block, operand, p.roles.k);
    if (plan.row->is_wgmma()) gpu_lay_in_spans(c, block, operand, size, p.roles.k);
  };
  if (!p.is_packed()) lay_out(p.block, p.roles.a, plan.tile.m);
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
    if (p.is_packed()) {
      part.weight.emplace(c, part.block, part.b, p.weights[i], plan.tile, plan.chunk);
    } else if (p.roles.weight != GpuRoles::WeightLayout::Matrices) {
      lay_out(part.block, part.b, plan.tile.n);
    }
  }
}

// Places a part's B, or its codes and the elements that they become, in the part's loops.
void place_b(RuleContext& c, const GpuProductPlan& plan, Part& part, const GpuTileCopies& copies) {
  if (!part.weight) return c.s.compute_at(gpu_writer(c.s, part.b), part.loops.k_outer);
  part.weight->place(part.loops.k_outer, part.chunk, copies, plan.tile.threads() / kWarp);
}

// Merges the parts' loops: in each k tile the products follow one another. Blocks between the
// products move into their loops before these are merged.
void join(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan, std::vector<Part>& parts,
          const GpuTileCopies& copies) {
  std::vector<GpuProductLoops> loops;
  for (Part& part : parts) {
    if (!loops.empty()) place_b(c, plan, part, copies);
    loops.push_back(part.loops);
  }
  gpu_merge_loops(c, loops);
  for (Part& part : parts) {
    part.loops.grid = loops[0].grid;
    part.loops.k_outer = loops[0].k_outer;
  }
  c.s.compute_at(gpu_writer(c.s, p.roles.a), loops[0].k_outer);
  place_b(c, plan, parts[0], copies);
}

// Accumulates each iteration of `loop` in registers of its own, then adds the results, scaled if
// the weight has scales. Returns the block of these registers' sums.
Block sum_apart(RuleContext& c, const GpuProductPlan& plan, const Block& sums, const Loop& loop,
                ElemType elem, size_t around) {
  const std::vector<Block> made = c.s.factor_scale(sums, loop, elem);
  c.s.set_scope(c.s.output(made[0])->name, Scope::Register);
  for (const Block& b : {made[1], sums}) bind_sums(c, plan, b, around);
  return made[0];
}

// Applies a group's scales to the accumulators of a k tile, or column scales to those of all of k.
// Promoted accumulators are those of a tile: tensor cores add with fewer bits than f32 has.
void scale_sums(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan, const Part& part) {
  const bool is_scaled = p.is_packed() && p.weights.front().scaled;
  const bool of_groups = is_scaled && p.weights.front().group > 0;
  const Loop inner = part.chunk.value_or(part.loops.warp);
  const ElemType elem = p.is_packed() ? p.weights.front().row.acc : c.s.output(part.block)->elem;
  Block sums = part.block;
  if (of_groups) sum_apart(c, plan, sums, inner, elem, 2);
  if (is_scaled && !of_groups) sums = sum_apart(c, plan, sums, part.loops.k_outer, elem, 1);
  if (plan.is_promoted && !of_groups) sum_apart(c, plan, sums, inner, elem, 2);
}

// The loop over the subtiles of the tile that the block `last` writes to shared memory, from a ring
// of two arrays.
Loop split_subtiles(RuleContext& c, const GpuEpilogue& e, const Block& last) {
  const std::vector<Loop> loops = c.s.loops(last);
  const std::vector<Loop> columns = c.s.split(loops.back(), {e.subtiles, e.box_columns});
  std::vector<Loop> order = {columns[0]};
  order.insert(order.end(), loops.begin() + 1, loops.end() - 1);
  order.push_back(columns[1]);
  c.s.reorder(order);
  c.s.unroll(columns[0]);
  c.s.annotate(columns[0], kStoreRingKey, int64_t{2});
  return columns[0];
}

// Epilogue: moves the result tile to its place.
void finish_result(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan,
                   const std::vector<Part>& parts, const Block& last) {
  const GpuEpilogue& e = plan.epilogue;
  const Loop grid = parts[0].loops.grid;
  Block stored = last;
  if (e.staged == Staged::Results) {
    stored = c.s.cache_write(last, c.s.output(last)->name, Scope::Shared);
    if (!p.roles.result_is_box) gpu_number_rows(c, last, stored);
    if (e.box_columns > 0) gpu_lay_in_boxes(c, last, e.box_columns);
  }
  std::vector<Block> holders = {last};  // blocks over accumulators
  if (e.staged == Staged::Sums) {
    holders.clear();
    for (const Part& part : parts) holders.push_back(part.staged);
    for (const Block& b : holders) c.s.reverse_compute_at(b, grid);
  }
  c.s.reverse_compute_at(last, grid);
  const Loop around = e.subtiles > 1 ? split_subtiles(c, e, last) : grid;
  if (!(stored == last)) c.s.reverse_compute_at(stored, around);
  // Bound now, while the program still shows what is private to a block.
  c.s.bind(grid, ForKind::BlockX);
  for (const Block& b : holders) bind_result(c, plan, b);
  if (!e.is_staged()) return;
  if (e.box_columns > 0) return gpu_store_boxes(c, stored, e.box_columns);
  if (!plan.is_swapped) return gpu_store_rows(c, stored, plan.tile);
  gpu_store_packed_rows(c, stored, plan.tile.threads(), e.vector);
}

// Marks the loops that are instructions, the pipeline and the grid. A group of k is unpacked while
// the previous one is multiplied; all groups of a tile are waited for after it.
void mark(RuleContext& c, const GpuProduct& p, const GpuProductPlan& plan,
          const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    c.s.annotate(part.loops.marked, kInstructionKey, std::string(plan.row->name));
    if (!p.is_packed() && !plan.row->is_wgmma()) c.s.unroll(part.loops.steps);
    c.s.bind(part.loops.warp, ForKind::Warp);
    if (!part.chunk) continue;
    c.s.unroll(*part.chunk);
    if (part.halves) c.s.unroll(*part.halves);
    c.s.annotate(*part.chunk, kWgmmaPendingKey, int64_t{1});
  }
  const auto& [grid, k_outer, steps, warp, marked] = parts[0].loops;
  const auto& [stages, pending, copies] = plan.pipeline;
  if (plan.is_swizzled) c.s.annotate(grid, kSharedRowsKey, std::string(kSwizzled));
  if (stages > 1) c.s.annotate(k_outer, kPipelineStagesKey, stages);
  if (pending > 0) c.s.annotate(k_outer, kWgmmaPendingKey, pending);
  if (gpu_copies_boxes(copies)) c.s.annotate(k_outer, kCopiesKey, copies);
  gpu_mark_cluster(c, plan.cluster, grid);
  gpu_mark_tile_order(c, plan.order, grid);
  gpu_mark_grid(c, plan.grid, grid, k_outer);
}

}  // namespace

GpuProductPlan::Side GpuProductPlan::rows() const {
  return is_swapped ? Side{tile.n, tile.warp_n} : Side{tile.m, tile.warp_m};
}

GpuProductPlan::Side GpuProductPlan::columns() const {
  return is_swapped ? Side{tile.m, tile.warp_m} : Side{tile.n, tile.warp_n};
}

void gpu_build_product(RuleContext& c, GpuProduct p, const GpuProductPlan& plan) {
  GpuVectors vectors = gpu_stage_operands_of(c, p, plan);
  std::vector<Part> parts = {{p.block, p.roles.b}};
  for (const GpuSibling& s : p.roles.siblings) parts.push_back({s.block, s.b});
  lay_out_operands(c, p, plan, parts);
  const Block last = gpu_place_results(c, p.block, p.roles);
  for (Part& part : parts) {
    if (plan.epilogue.staged == Staged::Sums) {
      part.staged = c.s.cache_read(last, c.s.output(part.block)->name, Scope::Shared);
    }
    gpu_lay_out_sums(c, part.block, static_cast<int>(plan.warp_rows()), plan.is_swapped);
    tile_loops(c, p, plan, part);
  }
  const GpuTileCopies copies{plan.pipeline.copies, plan.tile.threads()};
  join(c, p, plan, parts, copies);
  for (const Part& part : parts) {
    bind_sums(c, plan, c.s.decompose_reduction(part.block, part.loops.k_outer), 1);
  }
  for (const Part& part : parts) {
    scale_sums(c, p, plan, part);
    if (plan.stages_scales) part.weight->stage_scales(part.block, part.loops.k_outer, copies);
  }
  finish_result(c, p, plan, parts, last);
  copies.carry_out(c, p.roles.a, vectors.a);
  for (const Part& part : parts) {
    part.weight ? part.weight->copy_codes(copies) : copies.carry_out(c, part.b, vectors.b);
  }
  mark(c, p, plan, parts);
}

}  // namespace tilewright
