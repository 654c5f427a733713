#include "tuner/rules/gpu/gpu_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "kernel/instructions/wgmma_rows.h"
#include "tuner/rules/gpu/gpu_units.h"

namespace tilewright {
namespace {

constexpr int64_t kGroup = 8;        // tile rows whose operands L2 surely holds
constexpr int64_t kFewColumns = 16;  // tile columns; a row's blocks share these anyway

// A tile of which each warp has all rows.
TensorTileSizes all_rows(int64_t m, int64_t n, int64_t warp_n) { return {m, n, 0, m, warp_n}; }

}  // namespace

std::string TensorTileSizes::name() const {
  return fmt::format("{}x{}x{}/{}x{}", m, n, k, warp_m, warp_n);
}

int64_t TensorTileSizes::bytes(const Instruction& row, int64_t products) const {
  constexpr int64_t kPadding = 16;  // bytes per row
  return (m + products * n) * (k * row.operand_bits() / 8 + kPadding);
}

std::vector<TensorTileSizes> tensor_tiles_for(int64_t m, int64_t n, int64_t k, int64_t batch,
                                              const Instruction& row, const GpuFacts& gpu) {
  // From the largest to the smallest: block tile m, n, then warp tile m, n.
  constexpr int64_t kSizes[][4] = {{128, 256, 64, 64}, {256, 128, 64, 64}, {128, 128, 64, 64},
                                   {128, 128, 64, 32}, {64, 256, 64, 64},  {128, 64, 64, 32},
                                   {64, 128, 32, 64},  {64, 64, 32, 32},   {32, 128, 32, 32},
                                   {32, 64, 32, 16},   {16, 128, 16, 32},  {16, 64, 16, 16},
                                   {32, 32, 32, 16}};
  std::vector<TensorTileSizes> tiles;
  for (int64_t terms : {2 * row.k, 4 * row.k}) {
    if (terms > 2 * row.k && k < 4 * terms) continue;  // too short to read ahead
    for (const auto& s : kSizes) tiles.push_back({s[0], s[1], terms, s[2], s[3]});
  }
  // Rows that are all padding are wasted work.
  auto fits = [&](const TensorTileSizes& t) {
    bool wide = t.m > 16 && t.m >= 2 * m, long_rows = t.n > 64 && t.n >= 2 * n;
    return !wide && !long_rows && ceil_div(m, t.m) * ceil_div(n, t.n) * batch >= gpu.sms;
  };
  auto is_small = [&](const TensorTileSizes& t) {
    return t.n == 64 && (t.m == 32 || (t.m == 16 && m <= 16));
  };
  if (!gpu_put_first(tiles, fits)) gpu_put_first(tiles, is_small);
  return tiles;
}

std::vector<TensorTileSizes> wgmma_tiles_for(int64_t m, int64_t n, int64_t batch, int bits,
                                             const GpuFacts& gpu) {
  constexpr int64_t kSpan = 128, kTeam = 128;  // bytes of k; threads
  // A warpgroup has at most 128 x 128 or 64 x 256: that many accumulators fit its registers.
  constexpr int64_t kSizes[][4] = {{128, 256, 64, 256}, {256, 128, 128, 128}, {128, 256, 128, 128},
                                   {128, 128, 64, 128}, {128, 192, 64, 192},  {128, 128, 128, 128},
                                   {64, 256, 64, 256},  {64, 128, 64, 128},   {128, 64, 64, 64},
                                   {64, 64, 64, 64},    {64, 32, 64, 32}};
  std::vector<TensorTileSizes> tiles;
  for (const auto& s : kSizes) {
    const bool wide = s[0] > 64 && s[0] >= 2 * m, long_rows = s[1] > 32 && s[1] >= 2 * n;
    if (!wide && !long_rows) tiles.push_back({s[0], s[1], kSpan * 8 / bits, s[2], s[3], kTeam});
  }
  auto fits = [&](const TensorTileSizes& t) {
    return ceil_div(m, t.m) * ceil_div(n, t.n) * batch >= gpu.sms;
  };
  if (!gpu_put_first(tiles, fits)) std::rotate(tiles.begin(), std::prev(tiles.end()), tiles.end());
  return tiles;
}

void put_widest_first(std::vector<TensorTileSizes>& tiles,
                      const std::function<bool(const TensorTileSizes&)>& fills) {
  auto is_narrow = [](const TensorTileSizes& t) { return t.n == kWarpgroupRows; };
  if (!gpu_put_first(tiles, fills)) gpu_put_first(tiles, is_narrow);
}

std::string swapped_tile_name(const TensorTileSizes& t) {
  return fmt::format("{}x{}/{}", t.m, t.n, t.warp_n);
}

std::vector<TensorTileSizes> packed_tiles_for(int64_t m, int64_t n, const GpuFacts& gpu) {
  std::vector<TensorTileSizes> tiles;
  for (int64_t rows : {8, 16, 32}) {
    if (m > rows / 2 || rows == 8) {
      tiles.push_back(all_rows(rows, 64, 16));
      tiles.push_back(all_rows(rows, 32, 16));
      tiles.push_back(all_rows(rows, 128, 32));
    }
    if (m <= rows) break;
  }
  if (m > kFewRows) {
    constexpr int64_t kSizes[][3] = {{128, 128, 16}, {64, 256, 32}, {64, 128, 32}, {64, 128, 16},
                                     {64, 64, 16},   {32, 128, 32}, {32, 64, 16}};
    tiles.clear();
    for (const auto& [rows, columns, warp] : kSizes) tiles.push_back(all_rows(rows, columns, warp));
  } else {
    std::stable_partition(tiles.begin(), tiles.end(),
                          [&](const TensorTileSizes& t) { return t.m >= m; });
  }
  auto first = std::find_if(tiles.begin(), tiles.end(), [&](const TensorTileSizes& t) {
    return (t.m >= m || m > kFewRows) && ceil_div(m, t.m) * ceil_div(n, t.n) >= gpu.sms;
  });
  if (first == tiles.end()) first = tiles.begin() + (m > kFewRows ? 4 : 1);
  std::rotate(tiles.begin(), first, std::next(first));
  return tiles;
}

std::vector<TensorTileSizes> wgmma_packed_tiles_for(int64_t m, int64_t n, int sets,
                                                    const GpuFacts& gpu) {
  constexpr int64_t kMostRows = 256, kFewTiles = 8;
  std::vector<int64_t> sizes;
  for (int64_t rows : {16, 24, 32, 48, 64, 96, 128, 192, 256}) {
    if (rows * sets <= kMostRows && m <= kFewTiles * rows) sizes.push_back(rows);
    if (rows >= m) break;  // more would be all padding
  }
  if (sizes.empty()) sizes.push_back(sets < 3 ? kMostRows / sets : kMostRows / 4);
  std::vector<TensorTileSizes> tiles;
  for (auto rows = sizes.rbegin(); rows != sizes.rend(); ++rows) {
    for (int64_t columns : {256, 128, 64}) {
      // 512 threads have 128 registers each.
      const bool fits = columns < 256 || *rows * sets <= kMostRows / 2;
      if (fits && (columns == 64 || columns < 2 * n))
        tiles.push_back(all_rows(*rows, columns, kWeightRows));
    }
  }
  put_widest_first(tiles, [&](const TensorTileSizes& t) {
    return ceil_div(m, t.m) * ceil_div(n, t.n) >= gpu.sms;
  });
  return tiles;
}

std::vector<int64_t> packed_lengths_for(const Packable& p, int64_t rows) {
  std::vector<int64_t> lengths;
  std::vector<int64_t> all = {64, 128, 32, 16};
  if (rows <= kFewRows) all = {128, 256, 64, 32, 16};
  if (p.row.operand_bits() < 8) {  // the same number of bytes
    for (int64_t& k : all) k *= 8 / p.row.operand_bits();
  }
  for (int64_t k : all) {
    bool useful = k < 2 * p.k || k == p.terms();
    if (k % p.terms() == 0 && p.group % k == 0 && useful) lengths.push_back(k);
  }
  if (lengths.empty()) lengths.push_back(p.terms());
  return lengths;
}

std::vector<int64_t> tile_groups_for(int64_t rows, int64_t columns) {
  std::vector<int64_t> groups = {1};
  for (int64_t group : {2 * kGroup, kGroup, kGroup / 2}) {
    if (rows % group == 0) groups.push_back(group);
  }
  auto sound = std::find(groups.begin(), groups.end(), kGroup);
  if (columns > kFewColumns && sound != groups.end()) std::swap(groups[0], *sound);
  return groups;
}

}  // namespace tilewright
