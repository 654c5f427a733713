#include "kernel/prelude/cuda_sparse_wgmma.h"

#include <fmt/format.h>

#include "kernel/prelude/asm_operands.h"
#include "kernel/prelude/cuda_wgmma.h"

namespace tilewright {

using asm_text::operands;
using asm_text::places;

std::vector<const SparseWgmmaRow*> sparse_wgmma_rows_of(std::string_view kernel) {
  std::vector<const SparseWgmmaRow*> rows;
  for (std::string_view name : wgmma_names_in(kernel)) {
    if (const SparseWgmmaRow* row = find_sparse_wgmma(name)) rows.push_back(row);
  }
  return rows;
}

std::string sparse_wgmma_head(const SparseWgmmaRow& row, bool a_in_registers) {
  const WgmmaRow whole = row.whole();
  const std::string a =
      a_in_registers ? fmt::format("const unsigned (&a)[{}]", row.stored().warp.a_registers())
                     : "tw_operand a";
  return fmt::format(
      "\ntemplate <int SELECTOR{}>\nTW_FN void tw_wgmma_{}({} (&d)[{}], {},\n"
      "    tw_operand b, unsigned e, int scale_d",
      whole.may_be_transposed() ? ", int A_ACROSS, int B_ACROSS" : "", row.warp.whole.name,
      wgmma_sum_type(whole), whole.sum_registers(), a);
}

std::string sparse_wgmma_check(const SparseWgmmaRow& row, bool a_in_registers) {
  std::string text = fmt::format(
      "  static_assert(SELECTOR >= 0 && SELECTOR < {0}, \"a sparsity selector below {0}\");\n",
      row.warp.selectors());
  if (a_in_registers && row.whole().may_be_transposed()) {
    text += "  static_assert(A_ACROSS == 0, \"an A in registers runs along its terms\");\n";
  }
  return text;
}

namespace {

// The predicate says whether D is added to. Behind it come the factors of A and B, which only
// floats have, and whether A and B are MN-major.
std::string function_of(const SparseWgmmaRow& row, bool a_in_registers) {
  const WgmmaRow whole = row.whole();
  const int d = whole.sum_registers(), a = a_in_registers ? row.stored().warp.a_registers() : 1;
  const std::string sum = wgmma_sum_type(whole) == "float" ? "f" : "r";
  const int b = d + a, scale = b + 1, meta = b + 2;
  int next = meta + 1;  // the place of the next constant
  const int selector = next++;
  std::string modifiers, constants = "\"n\"(SELECTOR)";
  if (is_float(whole.warp.operand)) modifiers = ", 1, 1";
  if (whole.may_be_transposed()) {
    for (const char* across : {"A_ACROSS", "B_ACROSS"}) {
      if (a_in_registers && across[0] == 'A') continue;
      modifiers += fmt::format(", %{}", next++);
      constants += fmt::format(", \"n\"({})", across);
    }
  }
  return fmt::format(
      "{}) {{\n{}"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n"
      "      \"{} {{{}}}, {}, %{}, %{}, %{}, p{};\\n}}\\n\"\n"
      "      : {}\n      : {}, \"l\"(b), \"r\"(scale_d), \"r\"(e), {} : \"memory\");\n}}\n",
      sparse_wgmma_head(row, a_in_registers), sparse_wgmma_check(row, a_in_registers), scale,
      row.warp.whole.ptx, places(0, d), a_in_registers ? "{" + places(d, a) + "}" : places(d, 1), b,
      meta, selector, modifiers, operands(("+" + sum).c_str(), "d", d),
      a_in_registers ? operands("r", "a", a) : std::string("\"l\"(a)"), constants);
}

}  // namespace

std::string sparse_wgmma_functions(const SparseWgmmaRow& row) {
  return function_of(row, false) + function_of(row, true);
}

}  // namespace tilewright
