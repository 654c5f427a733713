// The asynchronous matrix instructions of warpgroups (PTX `wgmma.mma_async`, sm_90a) as data: shapes,
// types, where each element of an operand in registers lies, and how operands lie in shared memory. The
// device prelude prints them, the emulator computes them, schedules lay tiles out by them: all from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "codegen/mma_rows.h"

namespace tilewright {

/// Lanes that carry out one of these together: four warps, the first of which has a number that is a
/// multiple of four.
inline constexpr int kWarpgroup = 128;

/// D[64, n] = A[64, k] * B[k, n] + D, or without D. B lies in shared memory; A there, too, or in
/// registers. Each of the four warps has 16 rows of A and D: in its registers as `mma.sync` has them.
struct WgmmaRow {
  /// What one of the warps computes, [16, n] of D. The name, "m64n128k16_f32_f16", and the PTX
  /// instruction are those of the whole; the function in kernels is tw_wgmma_ + name.
  MmaRow warp;

  static constexpr int m = 64;
  int n() const { return warp.n; }
  int k() const { return warp.k; }
  /// Whether an operand in shared memory may run along its rows or columns instead of its terms.
  bool may_be_transposed() const { return warp.operand_bits() == 16; }
  /// Bytes of a row of A, or of a column of B, along k: 32 of them in every row.
  int term_bytes() const { return warp.k * warp.operand_bits() / 8; }
  /// Registers of 32 bits that hold a lane's sums.
  int sum_registers() const { return warp.acc_registers() * bits_of(warp.acc) / 32; }
};

/// Every row: n is a multiple of 8 from 8 to 256, of 16 from 32 on where operands are integers.
const std::vector<WgmmaRow>& wgmma_rows();

/// The row of this name; null when there is none.
const WgmmaRow* find_wgmma(std::string_view name);

/// Which element of A [64, k] lane `lane` of the warpgroup holds in register `r`, part `part`.
MatrixPlace wgmma_a_place(const WgmmaRow& row, int lane, int r, int part);
/// Likewise of D [64, n]: element `r` of n / 2 that a lane holds one by one.
MatrixPlace wgmma_acc_place(int lane, int r);

/// How 16-byte pieces of an operand are exchanged: those at the same place of eight rows of so many
/// bytes then lie in different banks. The values are the codes in a descriptor.
enum class WgmmaSwizzle : uint8_t { None = 0, Bytes128 = 1, Bytes64 = 2, Bytes32 = 3 };

/// 128, 64, 32, or 16 for none: the bytes that stay together.
int span_of(WgmmaSwizzle swizzle);
/// The one of a span of so many bytes; nothing for other numbers.
std::optional<WgmmaSwizzle> swizzle_of_span(int64_t bytes);
/// At multiples of how many bytes in shared memory the pattern begins anew; 16 for none.
int period_of(WgmmaSwizzle swizzle);
/// Where the byte lies that would lie at this address of shared memory.
int64_t swizzled(WgmmaSwizzle swizzle, int64_t address);

/// How an operand lies in shared memory, as a matrix descriptor says it (PTX ISA, "Asynchronous
/// warpgroup-level matrix shared memory layout"). Of A, x is the row, of B the column.
struct WgmmaLayout {
  WgmmaSwizzle swizzle = WgmmaSwizzle::None;
  bool along_k = true;  ///< terms are neighbours, or else rows (of B: columns)
  /// Byte offsets. Along k: from 16 bytes of terms to the next without a swizzle (with one they are
  /// neighbours), and from 8 rows to the next 8. Across: from the rows of a span to the next ones and
  /// from 8 terms to the next 8; without a swizzle the other way round.
  int64_t leading = 0, stride = 0;

  bool operator==(const WgmmaLayout&) const = default;
  /// Where the element of row (or column) x and term k lies, in bytes from the first one and before
  /// the swizzle.
  int64_t place(int bits, int64_t x, int64_t k) const;
};

/// The layout under which the element (x, 0) lies `across[x]` bytes from the first one and (0, k)
/// `along[k]`, the two distances adding up: how descriptors come from index maps. Nothing where the
/// instruction has none. `bits` are those of an element.
std::optional<WgmmaLayout> derive_wgmma_layout(int bits, WgmmaSwizzle swizzle,
                                               const std::vector<int64_t>& across,
                                               const std::vector<int64_t>& along);

/// What a descriptor can hold of an address or an offset: multiples of 16 below 2^18.
bool fits_descriptor(int64_t bytes);
/// The descriptor of an operand that begins at `address` of shared memory. Requires fits_descriptor of
/// the address and both offsets.
uint64_t wgmma_descriptor(int64_t address, const WgmmaLayout& layout);

}  // namespace tilewright
