#include "kernel/prelude/cuda_sparse_mma.h"

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

std::string sparse_mma_head(const SparseMmaRow& row) {
  const MmaRow& whole = row.whole;
  const int sums = whole.acc_registers();
  const char* type = is_float(whole.acc) ? "float" : "int";
  return fmt::format(
      "\ntemplate <int SELECTOR>\nTW_FN void tw_mma_{}({} (&d)[{}], const unsigned (&a)[{}],\n"
      "    const unsigned (&b)[{}], const {} (&c)[{}], unsigned e",
      whole.name, type, sums, row.stored().a_registers(), whole.b_registers(), type, sums);
}

std::string sparse_mma_check(const SparseMmaRow& row) {
  return fmt::format(
      "  static_assert(SELECTOR >= 0 && SELECTOR < {}, \"a sparsity selector below {}\");\n",
      row.selectors(), row.selectors());
}

std::string sparse_mma_function(const SparseMmaRow& row) {
  const int d = row.whole.acc_registers(), a = row.stored().a_registers(),
            b = row.whole.b_registers();
  const std::string sum = is_float(row.whole.acc) ? "f" : "r";
  return fmt::format(
      "{}) {{\n{}"
      "  asm volatile(TW_MMA_SP \"{} {{{}}}, {{{}}}, {{{}}}, {{{}}}, %{}, %{};\"\n"
      "      : {}\n      : {},\n        {},\n        {},\n        \"r\"(e), "
      "\"n\"(SELECTOR));\n}}\n",
      sparse_mma_head(row), sparse_mma_check(row), row.whole.ptx, places(0, d), places(d, a),
      places(d + a, b), places(d + a + b, d), 2 * d + a + b, 2 * d + a + b + 1,
      operands(("=" + sum).c_str(), "d", d), operands("r", "a", a), operands("r", "b", b),
      operands(sum.c_str(), "c", d));
}

}  // namespace tilewright
