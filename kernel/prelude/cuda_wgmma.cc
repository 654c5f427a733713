#include "kernel/prelude/cuda_wgmma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "kernel/prelude/asm_operands.h"
#include "kernel/prelude/cuda_mma.h"

namespace tilewright {

using asm_text::operands;
using asm_text::places;

// Operands that are settled get their registers there. A compiler would fold a move into the code
// that made the values, which may stand where other groups are in flight.
//
// The field of the swizzle counts down from its span (wgmma_descriptor()). All addresses of shared
// memory fit the field of the address. Bytes `ahead` of it are therefore one addition to the part
// that the descriptors of a nest share.
std::string_view wgmma_basics() {
  return R"(
typedef unsigned long long tw_operand;
template <int SWIZZLE>
TW_FN tw_operand tw_wgmma_operand(const void* p, int leading, int stride, int ahead = 0) {
  static_assert(SWIZZLE == 0 || SWIZZLE == 32 || SWIZZLE == 64 || SWIZZLE == 128,
                "a swizzle of 0, 32, 64 or 128 bytes");
  const unsigned code = SWIZZLE == 0 ? 0 : SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : 3;
  return (tw_operand)(code << 30 | (unsigned)stride >> 4) << 32 |
         ((tw_shared_address(p) >> 4) + (((unsigned)leading >> 4 << 16) + ((unsigned)ahead >> 4)));
}
TW_FN void tw_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TW_FN void tw_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> TW_FN void tw_wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
TW_FN void tw_wgmma_keep(float& x) { asm volatile("" : "+f"(x) :: "memory"); }
TW_FN void tw_wgmma_keep(int& x) { asm volatile("" : "+r"(x) :: "memory"); }
TW_FN void tw_wgmma_keep(unsigned& x) { asm volatile("" : "+r"(x) :: "memory"); }
template <class T, int N> TW_FN void tw_wgmma_hold(T (&d)[N]) {
  #pragma unroll
  for (int i = 0; i < N; ++i) tw_wgmma_keep(d[i]);
}
template <int N> TW_FN void tw_wgmma_settle(unsigned (&a)[N]) {
  #pragma unroll
  for (int i = 0; i < N; ++i) {
    asm volatile("prmt.b32 %0, %0, %0, 0x3210;" : "+r"(a[i]) :: "memory");
  }
}
)";
}

std::vector<std::string_view> wgmma_names_in(std::string_view kernel) {
  constexpr std::string_view kPrefix = "tw_wgmma_";
  std::vector<std::string_view> names;
  auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = 0; (at = kernel.find(kPrefix, at)) != std::string_view::npos;) {
    const size_t begin = at + kPrefix.size();
    for (at = begin; at < kernel.size() && in_word(kernel[at]);) ++at;
    const std::string_view name = kernel.substr(begin, at - begin);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<const Instruction*> wgmma_rows_of(std::string_view kernel) {
  std::vector<const Instruction*> rows;
  for (std::string_view name : wgmma_names_in(kernel)) {
    const Instruction* row = find_instruction(name);
    if (row && row->is_wgmma()) rows.push_back(row);
  }
  return rows;
}

std::string_view wgmma_sum_type(const Instruction& row) {
  if (row.acc == ElemType::f16) return "unsigned";
  return is_float(row.acc) ? "float" : "int";
}

std::string wgmma_head(const Instruction& row, bool a_in_registers) {
  const std::string a =
      a_in_registers ? fmt::format("const unsigned (&a)[{}]", row.a_registers()) : "tw_operand a";
  std::vector<std::string_view> constants;
  if (row.is_sparse()) constants.emplace_back("int SELECTOR");
  if (row.may_be_transposed()) constants.emplace_back("int A_ACROSS, int B_ACROSS");
  return fmt::format(
      "\n{}TW_FN void tw_wgmma_{}({} (&d)[{}], {},\n    tw_operand b, {}int scale_d",
      constants.empty() ? "" : fmt::format("template <{}>\n", fmt::join(constants, ", ")), row.name,
      wgmma_sum_type(row), row.sum_registers(), a, row.is_sparse() ? "unsigned e, " : "");
}

std::string wgmma_check(const Instruction& row, bool a_in_registers) {
  std::string text = row.is_sparse() ? selector_check(row) : "";
  if (a_in_registers && row.may_be_transposed()) {
    text += "  static_assert(A_ACROSS == 0, \"an A in registers runs along its terms\");\n";
  }
  return text;
}

namespace {

// One of a row's functions. Behind B and the predicate that says whether D is added to come the
// metadata with their selector, the factors of A and B, which only floats have, and whether A and B
// are MN-major.
std::string function_of(const Instruction& row, bool a_in_registers) {
  const int d = row.sum_registers(), a = a_in_registers ? row.a_registers() : 1;
  const std::string sum = wgmma_sum_type(row) == "float" ? "f" : "r";
  int next = d + a;
  const int b = next++, scale = next++;
  std::string metadata, modifiers, inputs;
  if (row.is_sparse()) {
    metadata = fmt::format(", {}", places(next, 2));
    inputs = ", \"r\"(e), \"n\"(SELECTOR)";
    next += 2;
  }
  if (is_float(row.operand)) modifiers = ", 1, 1";
  for (const char* across : {"A_ACROSS", "B_ACROSS"}) {
    if (!row.may_be_transposed() || (a_in_registers && across[0] == 'A')) continue;
    modifiers += fmt::format(", %{}", next++);
    inputs += fmt::format(", \"n\"({})", across);
  }
  return fmt::format(
      "{}) {{\n{}"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{}, 0;\\n\"\n"
      "      \"{} {{{}}}, {}, %{}{}, p{};\\n}}\\n\"\n"
      "      : {}\n      : {}, \"l\"(b), \"r\"(scale_d){} : \"memory\");\n}}\n",
      wgmma_head(row, a_in_registers), wgmma_check(row, a_in_registers), scale, row.ptx,
      places(0, d), a_in_registers ? "{" + places(d, a) + "}" : places(d, 1), b, metadata,
      modifiers, operands(("+" + sum).c_str(), "d", d),
      a_in_registers ? operands("r", "a", a) : std::string("\"l\"(a)"), inputs);
}

}  // namespace

std::string wgmma_functions(const Instruction& row) {
  return function_of(row, false) + function_of(row, true);
}

}  // namespace tilewright
