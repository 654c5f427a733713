// Layouts of the operands of `wgmma` in shared memory, as matrix descriptors give them.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/arith/index_map.h"

namespace tilewright {

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
  IndexMap place(int bits) const;

 private:
  template <class T>
  T place_of(int bits, const T& x, const T& k) const;
};

/// The layout in which `place`, (x, k) -> bytes from the first element, puts the elements of `rows`
/// x `terms`. Descriptors come from index maps by this. Nothing where the instruction has no such
/// layout. `bits` is the size of an element.
std::optional<WgmmaLayout> derive_wgmma_layout(int bits, WgmmaSwizzle swizzle,
                                               const IndexMap& place, int rows, int terms);

/// Whether a descriptor can hold an address or an offset: a multiple of 16 below 2^18.
bool fits_descriptor(int64_t bytes);
/// The descriptor of an operand that begins at `address` of shared memory. Requires fits_descriptor
/// of the address and both offsets.
uint64_t wgmma_descriptor(int64_t address, const WgmmaLayout& layout);

}  // namespace tilewright
