#include "kernel/prelude/cuda_mma.h"

#include <fmt/format.h>

#include "kernel/prelude/asm_operands.h"

namespace tilewright {

using asm_text::operands;
using asm_text::places;

std::string_view sparse_mma_name() {
  return R"(
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define TW_MMA_SP "mma.sp::ordered_metadata.sync.aligned"
#else
#define TW_MMA_SP "mma.sp.sync.aligned"
#endif
)";
}

std::string mma_head(const Instruction& row) {
  const int sums = row.acc_registers();
  const char* type = row.acc == ElemType::f16 ? "tw_f16" : is_float(row.acc) ? "float" : "int";
  return fmt::format(
      "\n{}TW_FN void tw_mma_{}({} (&d)[{}], const unsigned (&a)[{}], const unsigned (&b)[{}],\n"
      "    const {} (&c)[{}]{}",
      row.is_sparse() ? "template <int SELECTOR>\n" : "", row.name, type, sums, row.a_registers(),
      row.b_registers(), type, sums, row.is_sparse() ? ", unsigned e" : "");
}

std::string selector_check(const Instruction& row) {
  return fmt::format(
      "  static_assert(SELECTOR >= 0 && SELECTOR < {0}, \"a sparsity selector below {0}\");\n",
      row.selectors());
}

// Accumulators of f16 are taken in pairs.
std::string mma_function(const Instruction& row) {
  if (!row.split.empty()) return split_mma_text(row);
  const bool in_pairs = row.acc == ElemType::f16;
  const int d = row.sum_registers(), a = row.a_registers(), b = row.b_registers();
  const std::string sum = is_float(row.acc) && !in_pairs ? "f" : "r";
  std::string before, sums = operands(sum.c_str(), "c", d), after, metadata, inputs;
  if (in_pairs) {
    before = fmt::format("  unsigned w[{}];\n", d);
    sums.clear();
    for (int i = 0; i < d; ++i) {
      sums += fmt::format("{}\"r\"(tw_pack(c[{}], c[{}]))", i ? ", " : "", 2 * i, 2 * i + 1);
      after += fmt::format("  d[{}].bits = (unsigned short)w[{}];\n", 2 * i, i);
      after += fmt::format("  d[{}].bits = (unsigned short)(w[{}] >> 16);\n", 2 * i + 1, i);
    }
  }
  if (row.is_sparse()) {
    before = selector_check(row);
    metadata = ", " + places(2 * d + a + b, 2);
    inputs = ",\n        \"r\"(e), \"n\"(SELECTOR)";
  }
  return fmt::format(
      "{}) {{\n{}"
      "  asm volatile({}{} {{{}}}, {{{}}}, {{{}}}, {{{}}}{};\"\n"
      "      : {}\n      : {},\n        {},\n        {}{});\n{}}}\n",
      mma_head(row), before, row.is_sparse() ? "TW_MMA_SP \"" : "\"mma.sync.aligned", row.ptx,
      places(0, d), places(d, a), places(d + a, b), places(d + a + b, d), metadata,
      operands(("=" + sum).c_str(), in_pairs ? "w" : "d", d), operands("r", "a", a),
      operands("r", "b", b), sums, inputs, after);
}

}  // namespace tilewright
