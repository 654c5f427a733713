// Matrix instructions of the GPU as data: what one computes, where the elements of its operands lie,
// and what it needs. The device prelude prints these rows, the emulator computes them, and schedules
// lay out tiles by them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ir/type.h"
#include "kernel/instructions/fragment.h"

namespace tilewright {

/// The statements that instructions carry out. Those of single bits count the bits in which two
/// words differ, or that both have.
inline constexpr std::string_view kMultiplies = "D[i,j] += A[i,k] * B[k,j]";
inline constexpr std::string_view kCountsXor = "D[i,j] += A[i,k] ^ B[k,j]";
inline constexpr std::string_view kCountsAnd = "D[i,j] += A[i,k] & B[k,j]";

/// The element types of a product: of its operands, and of its accumulators.
struct ProductTypes {
  ElemType a, b, sums;
};

/// A row of one of the tables: `mma` (warps) and `wgmma` (warpgroups), each also with a sparse A,
/// of which each `of` neighbours of a row have at most `keep` nonzero elements. Sparse metadata
/// are the indices of these `keep`, in ascending order, in words of 32 bits. The sparsity selector
/// names the lanes that supply them: in each group of four, those from selector * metadata_lanes()
/// on.
struct Instruction {
  std::string_view name;  ///< "m16n8k16_f32_f16"; in kernels tw_mma_ + name or tw_wgmma_ + name
  int m, n, k;            ///< k counts the zeros of a sparse A
  ElemType acc;           ///< type of C and D
  ElemType operand;       ///< type of A, and of B unless `other` is given
  bool tf32;              ///< the operands are f32; only their highest 19 bits count
  int min_sm;             ///< the least compute capability times ten: 80
  std::string_view ptx;   ///< the instruction's name
  std::optional<ElemType> other = {};  ///< type of B, of as many bits
  int end_sm = 1000;  ///< first compute capability times ten without it, where PTX may emit a
                      ///< sequence
  std::string_view computes = kMultiplies;
  /// The tf32 row that does this one's work (3xTF32). Each operand is split into its tf32 part and
  /// the rest; all products are summed except those of two rests. Empty for instructions.
  std::string_view split = {};
  int lanes = kWarp;
  int keep = 1, of = 1;  ///< of a dense A: all
  int index_bits = 0;    ///< bits of one element's index in metadata

  /// Whether a device of this compute capability times ten has the instruction.
  bool runs_on(int sm) const { return sm >= min_sm && sm < end_sm; }
  /// Whether it multiplies these types. tf32 rows do not count as f32, but rows that split f32 in
  /// two do.
  bool takes(const ProductTypes& types) const {
    return operand == types.a && b_operand() == types.b && acc == types.sums && !tf32;
  }
  bool is_wgmma() const { return lanes == kWarpgroup; }
  bool is_sparse() const { return of > 1; }

  ElemType b_operand() const { return other.value_or(operand); }
  int operand_bits() const { return bits_of(operand); }
  int packed() const { return 32 / operand_bits(); }  ///< elements of A or B in a register
  int kept() const { return k / of * keep; }          ///< elements of a row of A as it is stored
  int a_registers() const { return m * kept() / packed() / lanes; }
  int b_registers() const { return k * n / packed() / lanes; }
  int acc_registers() const { return m * n / lanes; }  ///< elements of C or D in a lane
  /// 32-bit registers that hold a lane's accumulators.
  int sum_registers() const { return acc_registers() * bits_of(acc) / 32; }
  int warps() const { return lanes / kWarp; }

  /// The places of the stored A [m, kept()], B [k, n], and C and D [m, n]. Lanes hold neighbours
  /// along k as a register packs them, and pairs of accumulators. Each warp of a warpgroup has rows
  /// of its own. The B of a warpgroup lies in shared memory, and so may its A.
  const Fragment& a() const { return fragment_of({m, kept(), packed(), warps()}); }
  const Fragment& b() const { return fragment_of({n, k, packed(), 1, true}); }
  const Fragment& d() const { return fragment_of({m, n, 2, warps()}); }
  /// The part of A that one warp has.
  const Fragment& a_of_warp() const { return fragment_of({m / warps(), kept(), packed()}); }
  /// The stored A of all instructions that share metadata, as one warp has it, [16, kept() *
  /// selectors()]: the lane and the position in its word, from the lowest bits on, of each index.
  const Fragment& metadata() const;

  /// The dense instruction that A's kept elements are an operand of.
  Instruction stored() const;
  int indices_in_word() const { return 32 / index_bits; }
  /// Lanes in a group of four that supply metadata.
  int metadata_lanes() const { return m / warps() * kept() * index_bits / 32 / 8; }
  /// The number of instructions that can take their metadata from one register of each lane.
  int selectors() const { return is_sparse() ? 4 / metadata_lanes() : 1; }
  /// The position of an element among `of` neighbours, decoded from its index in a word; nothing
  /// for bits that mean no position.
  std::optional<int> place_of_index(uint32_t bits) const;

  /// Whether an operand in shared memory may be MN-major: run along its rows or columns instead of
  /// k.
  bool may_be_transposed() const { return operand_bits() == 16; }
  /// Bytes of a row of the stored A, or of a column of B, along k.
  int a_bytes() const { return kept() * operand_bits() / 8; }
  int b_bytes() const { return k * operand_bits() / 8; }
};

/// The row of this name in any of the tables (mma_rows.h, wgmma_rows.h); null when there is none.
const Instruction* find_instruction(std::string_view name);

/// The first row of a table that `fits` and that a device of this compute capability times ten has;
/// null when there is none.
template <class Fits>
const Instruction* first_row(const std::vector<Instruction>& table, int sm, const Fits& fits) {
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const Instruction& r) { return r.runs_on(sm) && fits(r); });
  return row == table.end() ? nullptr : &*row;
}

}  // namespace tilewright
