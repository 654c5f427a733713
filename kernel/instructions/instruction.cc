#include "kernel/instructions/instruction.h"

#include <map>

#include "kernel/instructions/mma_rows.h"
#include "kernel/instructions/wgmma_rows.h"

namespace tilewright {

// A metadata word of 8-bit elements covers one row; the rows 8 apart stand in neighbouring lanes.
// Other words hold half a word for row lane / 4, and half for the row 8 further on.
const Fragment& Instruction::metadata() const {
  if (operand_bits() != 8) {
    return fragment_of({m / warps(), kept() * selectors(), indices_in_word() / 2});
  }
  static const Fragment of_bytes = {
      16, 32,
      IndexMap::parse("(i, r) -> (floormod(i, 8) * 4 + floordiv(r, 16) * 2 + floordiv(i, 8), "
                      "floormod(r, 16))")};
  return of_bytes;
}

Instruction Instruction::stored() const {
  Instruction row = *this;
  row.k = kept();
  row.keep = row.of = 1;
  return row;
}

std::optional<int> Instruction::place_of_index(uint32_t bits) const {
  if (index_bits == 2) return static_cast<int>(bits);
  // The halves of the first element have indices 0 and 1, those of the second 2 and 3.
  if (bits == 0b0100) return 0;
  if (bits == 0b1110) return 1;
  return std::nullopt;
}

const Instruction* find_instruction(std::string_view name) {
  static const std::map<std::string_view, const Instruction*> by_name = [] {
    std::map<std::string_view, const Instruction*> rows;
    for (const auto* table :
         {&mma_rows(), &sparse_mma_rows(), &wgmma_rows(), &sparse_wgmma_rows()}) {
      for (const Instruction& row : *table) rows[row.name] = &row;
    }
    return rows;
  }();
  auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

}  // namespace tilewright
