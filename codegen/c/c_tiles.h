// Accumulators in tile registers (AMX), for intrinsics that multiply tiles.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "ir/stmt.h"

namespace tilewright {

// The registers of a processor with tiles; each holds 16 rows of 64 bytes.
inline constexpr int kTileRegisters = 8;
// Two are for operands.
inline constexpr size_t kTileAccumulators = kTileRegisters - 2;

// Whether the elements of `buffer`, as variables (first index -> lanes), can stand in tile registers
// while `body` runs: each is a whole tile and is only started (from memory or with zeros), added to
// by products of tiles, and stored; and no other product of tiles in the body needs registers.
bool fit_tile_registers(const Buffer& buffer, const std::map<int64_t, int>& variables,
                        const Stmt& body);

// The operands' addresses whose tiles the free registers hold, along straight code. The register
// used longest ago makes room for the next one.
class TileOperands {
 public:
  // Registers from `first` on are free, and hold no operand.
  void reset(int first);
  void forget() { reset(first_); }
  // The register of the tile at the address `text`, and whether it holds that tile already. The
  // register `kept` is not taken.
  std::pair<int, bool> take(const std::string& text, int kept = -1);

 private:
  int first_ = 0;
  int64_t uses_ = 0;
  std::array<std::string, kTileRegisters> held_;
  std::array<int64_t, kTileRegisters> used_{};
};

}  // namespace tilewright
