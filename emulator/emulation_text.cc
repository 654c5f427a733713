#include "emulator/emulation_text.h"

#include <fmt/format.h>

#include <cctype>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "emulator/instructions/wgmma.h"
#include "kernel/instructions/mma_rows.h"
#include "kernel/prelude/cuda_mma.h"
#include "kernel/prelude/cuda_prelude.h"

// The headers as they are, each between two labels; the build says where they lie.
#define TW_EMBED(name, path)     \
  asm(".pushsection .rodata\n"   \
      ".global tilewright_" name \
      "_begin\n"                 \
      "tilewright_" name         \
      "_begin:\n"                \
      ".incbin \"" path          \
      "\"\n"                     \
      ".global tilewright_" name \
      "_end\n"                   \
      "tilewright_" name         \
      "_end:\n"                  \
      ".byte 0\n"                \
      ".popsection\n")

TW_EMBED("host_abi", TILEWRIGHT_EMULATOR "/host_abi.h");
TW_EMBED("cuda_on_cpu", TILEWRIGHT_EMULATOR "/cuda_on_cpu.h");
TW_EMBED("cuda_async_on_cpu", TILEWRIGHT_EMULATOR "/cuda_async_on_cpu.h");

extern "C" {
extern const char tilewright_host_abi_begin[];
extern const char tilewright_host_abi_end[];
extern const char tilewright_cuda_on_cpu_begin[];
extern const char tilewright_cuda_on_cpu_end[];
extern const char tilewright_cuda_async_on_cpu_begin[];
extern const char tilewright_cuda_async_on_cpu_end[];
}

namespace tilewright::emulator {
namespace {

constexpr std::string_view kTypesMark = "\nTW_EMU_TYPES\n";
constexpr std::string_view kCodesMark = "\nTW_EMU_CODES\n";
constexpr std::string_view kTablesMark = "\nTW_EMU_TABLES\n";

std::string mma_functions(const std::vector<Instruction>& rows) {
  std::string text;
  for (const Instruction& row : rows) {
    if (!row.split.empty()) {
      text += split_mma_text(row, "TW_LINE", "line");
      continue;
    }
    const auto number = &row - rows.data();
    const std::string call = row.is_sparse()
                                 ? fmt::format("mma_sp({}, SELECTOR, d, a, b, c, e, line)", number)
                                 : fmt::format("mma({}, d, a, b, c, line)", number);
    text += fmt::format("{}, TW_LINE) {{\n{}  tw_emu.host->{};\n}}\n", mma_head(row),
                        row.is_sparse() ? selector_check(row) : "", call);
  }
  return text;
}

std::string make_header() {
  std::string text(tilewright_host_abi_begin, tilewright_host_abi_end);
  std::string_view header(
      tilewright_cuda_on_cpu_begin,
      static_cast<size_t>(tilewright_cuda_on_cpu_end - tilewright_cuda_on_cpu_begin));
  const std::pair<std::string_view, std::string_view> parts[] = {
      {kTypesMark, cuda_types()}, {kCodesMark, cuda_codes()}, {kTablesMark, cuda_tables()}};
  for (const auto& [mark, part] : parts) {
    size_t at = header.find(mark);
    TW_ASSERT(at != std::string_view::npos,
              "the emulation header has places for types, codes and tables, in this order");
    text += header.substr(0, at);
    text += part;
    header.remove_prefix(at + mark.size());
  }
  text += header;
  text.append(tilewright_cuda_async_on_cpu_begin, tilewright_cuda_async_on_cpu_end);
  return text + mma_functions(mma_rows()) + mma_functions(sparse_mma_rows());
}

}  // namespace

std::string emulated_unit(const std::string& text, const std::vector<std::string>& entries) {
  static const std::string header = make_header();
  std::string unit = fmt::format("{}{}\n#line 1 \"{}.cu\"\n{}\n#line 1 \"launches\"\n", header,
                                 wgmma_text(text), entries.front(), text);
  for (const std::string& entry : entries) unit += fmt::format("TW_EMU_ENTRY({})\n", entry);
  return unit;
}

std::array<int, 3> cluster_of(const std::string& text, const std::string& entry) {
  constexpr std::string_view kDims = "__cluster_dims__(";
  std::array<int, 3> dims = {1, 1, 1};
  // Where it is a name by itself, not the end of a longer one.
  size_t name = text.find(entry + "(");
  while (name != std::string::npos && name > 0 &&
         (std::isalnum(static_cast<unsigned char>(text[name - 1])) != 0 || text[name - 1] == '_')) {
    name = text.find(entry + "(", name + 1);
  }
  if (name == std::string::npos) return dims;
  const size_t head = text.rfind("extern \"C\"", name), at = text.rfind(kDims, name);
  if (at == std::string::npos || head == std::string::npos || at < head) return dims;
  std::istringstream numbers(text.substr(at + kDims.size(), name - at));
  char comma = ',';
  for (size_t d = 0; d < dims.size() && comma == ','; ++d) numbers >> dims[d] >> comma;
  return dims;
}

}  // namespace tilewright::emulator
