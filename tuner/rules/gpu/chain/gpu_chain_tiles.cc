#include "tuner/rules/gpu/chain/gpu_chain_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr int64_t kRegister = 4;    // bytes per register
constexpr int64_t kOwn = 40;        // registers for addresses, loops, row maxima and sums
constexpr int64_t kPadding = 16;    // bytes per row of shared memory
constexpr int64_t kLeastRows = 32;  // up to here padding does not count
constexpr const char* kInRegisters = "registers";

}  // namespace

std::string ChainTile::name() const { return fmt::format("{}x{}/{}", rows, step, warp_rows); }

int64_t ChainShape::blocks(const ChainTile& t) const { return stacks * ceil_div(rows, t.rows); }

int64_t ChainShape::registers(const ChainTile& t, bool rows_in_registers) const {
  const int64_t packed = row->packed();
  const int64_t held = products * t.step + t.step / packed + columns;
  return t.warp_rows * (held + (rows_in_registers ? terms / packed : 0)) / kWarp + kOwn;
}

int64_t ChainShape::bytes(const ChainTile& t, int64_t stages, bool rows_in_registers) const {
  const int64_t element = kRegister / row->packed();
  const int64_t of_step = (products * terms + columns) * element + (products + 1) * kPadding;
  return stages * t.step * of_step +
         (rows_in_registers ? 0 : t.rows * (terms * element + kPadding));
}

std::vector<ChainTile> chain_tiles(const ChainShape& shape, std::vector<ChainTile> tiles,
                                   int64_t least_step, const GpuFacts& gpu) {
  const int64_t stages = gpu.has_async_copy() ? 2 : 1;
  std::erase_if(tiles, [&](const ChainTile& t) {
    const bool is_useful = (t.rows <= kLeastRows || t.rows < 2 * shape.rows) &&
                           (t.step <= least_step || t.step < 2 * shape.between);
    return !is_useful || shape.registers(t, false) > gpu.registers_per_thread ||
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
