// Asynchronous warpgroup matrix instructions (PTX `wgmma.mma_async`, sm_90a) as data. A row gives
// shapes, types, the place of each operand element in registers, and the layouts of operands in
// shared memory. The device prelude prints the rows, the emulator computes them, and schedules lay
// out tiles by them: all from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {

/// Rows of A and D that each of its warps has.
inline constexpr int kWarpRows = 16;

/// D[64, n] = A[64, k] * B[k, n] + D, or without D. B lies in shared memory; A lies there, too, or
/// in registers. Each of the four warps has 16 rows of A and D in its registers, as `mma.sync` has
/// them.
struct WgmmaRow {
  /// The part of one warp, [16, n] of D. The name, "m64n128k16_f32_f16", and the PTX instruction
  /// are those of the whole; the function in kernels is tw_wgmma_ + name.
  MmaRow warp;

  static constexpr int m = 64;
  int n() const { return warp.n; }
  int k() const { return warp.k; }
  /// Whether an operand in shared memory may be MN-major: run along its rows or columns instead of
  /// k.
  bool may_be_transposed() const { return warp.operand_bits() == 16; }
  /// Bytes of a row of A, or of a column of B, along k: 32 in every row of the table.
  int term_bytes() const { return warp.k * warp.operand_bits() / 8; }
  /// 32-bit registers that hold a lane's accumulators.
  int sum_registers() const { return warp.acc_registers() * bits_of(warp.acc) / 32; }
  /// The places of A [64, k] and D [64, n]: each warp has its rows as `mma.sync` has them.
  const Fragment& a() const { return fragment_of({m, k(), warp.packed(), m / kWarpRows}); }
  const Fragment& d() const { return fragment_of({m, n(), 2, m / kWarpRows}); }
};

/// Every row: n is a multiple of 8 from 8 to 256, of 16 from 32 on where operands are integers.
const std::vector<WgmmaRow>& wgmma_rows();

/// The row of this name; null when there is none.
const WgmmaRow* find_wgmma(std::string_view name);

/// The swizzle of an operand's 16-byte vectors. Those at the same position of eight rows then lie
/// in different banks. A row of the swizzle atom has 128, 64 or 32 bytes. The values are the codes
/// in a descriptor.
enum class WgmmaSwizzle : uint8_t { None = 0, Bytes128 = 1, Bytes64 = 2, Bytes32 = 3 };

/// The bytes of a span, a row of the swizzle atom, which stay together: 128, 64, 32, or 16 for
/// none.
int span_of(WgmmaSwizzle swizzle);
/// The swizzle of a span of so many bytes; nothing for other numbers.
std::optional<WgmmaSwizzle> swizzle_of_span(int64_t bytes);
/// The bytes of shared memory after which the pattern repeats, a swizzle atom; 16 for none.
int period_of(WgmmaSwizzle swizzle);
/// The address at which the swizzle puts the byte that would lie at `address` without it.
int64_t swizzled(WgmmaSwizzle swizzle, int64_t address);

/// The layout of an operand in shared memory, as a matrix descriptor gives it. The source is the
/// PTX ISA, "Asynchronous warpgroup-level matrix shared memory layout". The index x is the row of
/// A, or the column of B.
struct WgmmaLayout {
  WgmmaSwizzle swizzle = WgmmaSwizzle::None;
  bool along_k = true;  ///< K-major: neighbours along k, or else along rows (of B: columns)
  /// Byte offsets. K-major: `leading` goes from 16 bytes of k to the next without a swizzle; with
  /// one these are neighbours. `stride` goes from 8 rows to the next 8. MN-major: `leading` goes
  /// from the rows of a span to the next ones, `stride` from 8 indices of k to the next 8. Without
  /// a swizzle these two are the other way round.
  int64_t leading = 0, stride = 0;

  bool operator==(const WgmmaLayout&) const = default;
  /// The location of the element of row (or column) x and index k, in bytes from the first one,
  /// before the swizzle.
  int64_t place(int bits, int64_t x, int64_t k) const;
};

/// The layout in which the element (x, 0) lies `across[x]` bytes from the first one and (0, k)
/// `along[k]`; the two distances add up. Descriptors come from index maps by this. Nothing where
/// the instruction has no such layout. `bits` is the size of an element.
std::optional<WgmmaLayout> derive_wgmma_layout(int bits, WgmmaSwizzle swizzle,
                                               const std::vector<int64_t>& across,
                                               const std::vector<int64_t>& along);

/// Whether a descriptor can hold an address or an offset: a multiple of 16 below 2^18.
bool fits_descriptor(int64_t bytes);
/// The descriptor of an operand that begins at `address` of shared memory. Requires fits_descriptor
/// of the address and both offsets.
uint64_t wgmma_descriptor(int64_t address, const WgmmaLayout& layout);

}  // namespace tilewright
