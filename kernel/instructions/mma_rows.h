// Warp-level matrix instructions (PTX `mma.sync`) as data. A row gives the shape, the types, the
// requirements, and the place of each operand element among lanes and registers. The device prelude
// prints this one table, the emulator computes it, and schedules place fragments by it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"
#include "kernel/instructions/fragment.h"

namespace tilewright {

/// How an instruction combines two elements before it sums: it multiplies numbers; of single bits
/// it takes whether they differ, or whether both are set.
enum class MmaProduct : uint8_t { Numbers, Xor, And };

/// D[m, n] = A[m, k] * B[k, n] + C[m, n], computed jointly by the 32 lanes of a warp. A lane holds
/// its part of A and B in packed 32-bit registers, lowest bits first. It holds its part of C and D,
/// the accumulators, element by element; f16 share a register in pairs.
struct MmaRow {
  std::string_view name;  ///< "m16n8k16_f32_f16"; its function in kernels is tw_mma_ + name
  int m, n, k;
  ElemType acc;
  ElemType operand;                    ///< type of A, and of B unless `other` is given
  bool tf32;                           ///< the operands are f32; only their highest 19 bits count
  int min_sm;                          ///< the least compute capability times ten: 80
  std::string_view ptx;                ///< the instruction's name
  std::optional<ElemType> other = {};  ///< type of B, of as many bits
  MmaProduct product = MmaProduct::Numbers;
  int end_sm = 1000;  ///< first compute capability times ten without it, where PTX may emit a
                      ///< sequence
  /// The tf32 row that does this one's work (3xTF32). Each operand is split into its tf32 part and
  /// the rest; all products are summed except those of two rests. Empty for instructions.
  std::string_view split = {};

  ElemType b_operand() const { return other.value_or(operand); }
  /// Whether a device of this compute capability times ten has the instruction.
  bool runs_on(int sm) const { return sm >= min_sm && sm < end_sm; }

  int operand_bits() const { return bits_of(operand); }
  /// Elements of A or B in a register.
  int packed() const { return 32 / operand_bits(); }
  int a_registers() const { return m * k / packed() / 32; }
  int b_registers() const { return k * n / packed() / 32; }
  /// Elements of C or D in a lane.
  int acc_registers() const { return m * n / 32; }

  /// The places of A [m, k], B [k, n], and C and D [m, n]. Lanes hold neighbours along k as a
  /// register packs them, and pairs of accumulators.
  const Fragment& a() const { return fragment_of({m, k, packed()}); }
  const Fragment& b() const { return fragment_of({n, k, packed(), 1, true}); }
  const Fragment& d() const { return fragment_of({m, n, 2}); }
};

/// Every row.
const std::vector<MmaRow>& mma_rows();

/// The row of this name; null when there is none.
const MmaRow* find_mma(std::string_view name);

/// The function of a `split` row, in terms of the row that does its work. `extra` are parameters
/// that both take after the others: "TW_LINE".
std::string split_mma_text(const MmaRow& row, std::string_view extra = {},
                           std::string_view argument = {});

}  // namespace tilewright
