// The text of the functions of kernel/prelude/cuda_wgmma.h in emulated kernels.
#include <fmt/format.h>

#include "emulator/instructions/wgmma.h"
#include "kernel/instructions/wgmma_rows.h"
#include "kernel/prelude/cuda_wgmma.h"

namespace tilewright::emulator {
namespace {

constexpr const char* kBasics = R"(
template <int SWIZZLE, class T>
TW_FN tw_operand tw_wgmma_operand(tw_ptr<T> p, int leading, int stride, int ahead = 0) {
  return {p.array, p.offset + ahead, SWIZZLE, leading, stride};
}
TW_FN void tw_wgmma_fence(TW_LINE) { tw_emu.host->wgmma->fence(line); }
TW_FN void tw_wgmma_commit(TW_LINE) { tw_emu.host->wgmma->commit(line); }
template <int PENDING>
TW_FN void tw_wgmma_wait(TW_LINE) {
  tw_emu.host->wgmma->wait(PENDING, line);
}
template <class T, int N>
TW_FN void tw_wgmma_hold(T (&)[N]) {}
template <int N>
TW_FN void tw_wgmma_settle(unsigned (&)[N]) {}
)";

std::string function_of(const Instruction& row, bool a_in_registers) {
  const auto& rows = row.is_sparse() ? sparse_wgmma_rows() : wgmma_rows();
  return fmt::format(
      "{}, TW_LINE) {{\n{}  tw_emu.host->wgmma->multiply{}({}, {}{}, d, {}, {}, &b, {}scale_d, "
      "line);\n}}\n",
      wgmma_head(row, a_in_registers), wgmma_check(row, a_in_registers),
      row.is_sparse() ? "_sparse" : "", &row - rows.data(), row.is_sparse() ? "SELECTOR, " : "",
      row.may_be_transposed() ? "A_ACROSS + 2 * B_ACROSS" : "0", a_in_registers ? "a" : "nullptr",
      a_in_registers ? "nullptr" : "&a", row.is_sparse() ? "e, " : "");
}

}  // namespace

std::string wgmma_text(const std::string& kernel) {
  std::string text = kBasics;
  for (const Instruction* row : wgmma_rows_of(kernel)) {
    text += function_of(*row, false) + function_of(*row, true);
  }
  return text;
}

}  // namespace tilewright::emulator
