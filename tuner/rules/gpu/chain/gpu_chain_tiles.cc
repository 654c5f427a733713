#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "codegen/cuda/cuda_roles.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr int64_t kRegister = 4;  // bytes per register
constexpr const char* kInRegisters = "registers";

// The numbers by which chains of warps and of warpgroups differ.
struct Costs {
  int64_t own_registers;  // for addresses, loops, row maxima and sums
  int64_t padding;        // bytes per row of shared memory
  int64_t barriers;       // bytes of mbarriers, with alignment
  int64_t least_rows;     // up to here padding does not count
};

const Costs& costs_of(const Instruction& row) {
  static constexpr Costs kOfWarps = {40, 16, 0, 32}, kOfWarpgroups = {30, 0, 1024, kWarpgroupRows};
  return row.is_wgmma() ? kOfWarpgroups : kOfWarps;
}

// Registers that a thread may have; of a warpgroup, by the way of copying that leaves the fewest.
int64_t registers_for(const ChainTile& t, const Instruction& row, const GpuFacts& gpu) {
  const int64_t left =
      row.is_wgmma() ? role_budget(t.threads(), gpu).consumer_registers : int64_t{0};
  return left > 0 ? left : gpu.registers_per_thread;
}

}  // namespace

std::string ChainTile::name() const { return fmt::format("{}x{}/{}", rows, step, warp_rows); }

int64_t ChainShape::blocks(const ChainTile& t) const { return stacks * ceil_div(rows, t.rows); }

int64_t ChainShape::registers(const ChainTile& t, bool rows_in_registers) const {
  const int64_t packed = row->packed();
  const int64_t held = products * t.step + t.step / packed + columns;
  return t.warp_rows * (held + (rows_in_registers ? terms / packed : 0)) / kWarp +
         costs_of(*row).own_registers;
}

int64_t ChainShape::bytes(const ChainTile& t, int64_t stages, bool rows_in_registers) const {
  const int64_t element = kRegister / row->packed();
  const auto& [own, padding, barriers, least] = costs_of(*row);
  const int64_t of_step = (products * terms + columns) * element + (products + 1) * padding;
  return stages * t.step * of_step + barriers +
         (rows_in_registers ? 0 : t.rows * (terms * element + padding));
}

std::vector<ChainTile> chain_tiles(const ChainShape& shape, std::vector<ChainTile> tiles,
                                   int64_t least_step, const GpuFacts& gpu) {
  const int64_t stages = gpu.has_async_copy() ? 2 : 1;
  std::erase_if(tiles, [&](const ChainTile& t) {
    const bool is_useful = (t.rows <= costs_of(*shape.row).least_rows || t.rows < 2 * shape.rows) &&
                           (t.step <= least_step || t.step < 2 * shape.between);
    return !is_useful || shape.registers(t, false) > registers_for(t, *shape.row, gpu) ||
           shape.bytes(t, stages, false) > gpu.shared_per_block;
  });
  gpu_put_first(tiles, [&](const ChainTile& t) { return shape.blocks(t) >= gpu.sms; });
  return tiles;
}

ChainAnswers choose_chain_tile(RuleContext& c, const Block& block, const ChainShape& shape,
                               const std::vector<ChainTile>& tiles) {
  const GpuFacts& gpu = c.input.target.gpu;
  ChainAnswers a;
  a.tile = c.t.choose_among(block.name + ".tile", tiles);
  std::vector<std::string> places = {kInRegisters, "shared"};
  if (shape.registers(a.tile, true) > gpu.registers_per_thread) places.erase(places.begin());
  a.in_registers = c.t.choose(block.name + ".rows", places) == kInRegisters;
  std::vector<int64_t> depths = {2, 3, 1};
  if (!gpu.has_async_copy()) depths = {1};
  std::erase_if(depths, [&](int64_t n) {
    return n > 1 && shape.bytes(a.tile, n, a.in_registers) > gpu.shared_per_block;
  });
  a.stages = c.t.choose(block.name + ".stages", depths);
  return a;
}

}  // namespace tilewright
