// The matrix instructions of warps (PTX `mma.sync`) as data: shape, types, what they need, and where
// each element of an operand lies among lanes and registers. The device prelude prints them, the
// emulator computes them, schedules place fragments by them: all from this one table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace tilewright {

/// What an instruction makes of two elements before it sums: their product, or of single bits whether
/// they differ or whether both are set.
enum class MmaProduct : uint8_t { Numbers, Xor, And };

/// D[m, n] = A[m, k] * B[k, n] + C[m, n], computed by the 32 lanes of a warp together. A lane holds
/// its part of A and B in 32-bit registers, several elements each, lowest bits first; its part of C
/// and D as elements one by one, of which f16 share a register in pairs.
struct MmaRow {
  std::string_view name;  ///< "m16n8k16_f32_f16"; its function in kernels is tw_mma_ + name
  int m, n, k;
  ElemType acc;
  ElemType operand;                    ///< of A, and of B unless `other` is given
  bool tf32;                           ///< the operands are f32 of which the highest 19 bits count
  int min_sm;                          ///< the least compute capability times ten: 80
  std::string_view ptx;                ///< the instruction's name
  std::optional<ElemType> other = {};  ///< of B, of as many bits
  MmaProduct product = MmaProduct::Numbers;
  int end_sm = 1000;  ///< the first compute capability times ten that has it no more: PTX may still
                      ///< take it, for a sequence of others
  /// The row of tf32 that does this one's work: operands are split into what tf32 holds and what that
  /// leaves, and all products are summed but those of two rests. Empty for instructions.
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
};

/// Every row.
const std::vector<MmaRow>& mma_rows();

/// The row of this name; null when there is none.
const MmaRow* find_mma(std::string_view name);

/// The function of a row that is `split`, in terms of that of the row which does its work. `extra` are
/// parameters of both behind the others: "TW_LINE".
std::string split_mma_text(const MmaRow& row, std::string_view extra = {},
                           std::string_view argument = {});

/// An element of a matrix.
struct MatrixPlace {
  int row, column;
  bool operator==(const MatrixPlace&) const = default;
};

/// Which element of A [m, k] lane `lane` holds in register `r`, part `part` (below packed(), counted
/// from the lowest bits). With g = lane / 4, t = lane % 4: the rows g, g + 8, …, then the next columns.
MatrixPlace a_place(const MmaRow& row, int lane, int r, int part);
/// Likewise of B [k, n].
MatrixPlace b_place(const MmaRow& row, int lane, int r, int part);
/// Likewise of C and D [m, n].
MatrixPlace acc_place(int lane, int r);

/// Which element of an 8x8 matrix of 16-bit elements lane `lane` gets from `ldmatrix` in half `part`
/// of its register; of the transposed matrix with `transposed`.
MatrixPlace ldmatrix_place(int lane, int part, bool transposed);

}  // namespace tilewright
