#include "codegen/cuda/instructions/cuda_instruction.h"

#include <algorithm>
#include <array>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {

std::string instruction_of(const ForNode& loop) {
  auto it = loop.annotations.find(kInstructionKey);
  auto* name = it == loop.annotations.end() ? nullptr : std::get_if<std::string>(&it->second);
  return name ? *name : "";
}

std::string mma_mark(const ForNode& loop) {
  constexpr std::array<std::string_view, 4> kOthers = {kDp4a, kStmatrix, kShuffle, kTma};
  std::string name = instruction_of(loop);
  return std::find(kOthers.begin(), kOthers.end(), name) == kOthers.end() ? name : "";
}

const Instruction* wgmma_mark(const ForNode& loop) {
  const Instruction* row = find_instruction(mma_mark(loop));
  return row && row->is_wgmma() ? row : nullptr;
}

}  // namespace tilewright
