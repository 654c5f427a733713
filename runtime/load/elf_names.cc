#include "runtime/load/elf_names.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tilewright {
namespace {

enum class Rule : uint8_t {
  Allowed,
  OnAarch64,
  Runs,       // code, when the object is loaded or unloaded
  Redirects,  // where libraries are looked for, or which object stands for which name
  Rewrites,   // code
  Other,      // nothing that a kernel has
};

struct Tag {
  int64_t tag;
  const char* name;
  Rule rule;
};

constexpr Tag kTags[] = {
    {DT_NEEDED, "DT_NEEDED", Rule::Allowed},
    {DT_HASH, "DT_HASH", Rule::Allowed},
    {DT_GNU_HASH, "DT_GNU_HASH", Rule::Allowed},
    {DT_STRTAB, "DT_STRTAB", Rule::Allowed},
    {DT_SYMTAB, "DT_SYMTAB", Rule::Allowed},
    {DT_STRSZ, "DT_STRSZ", Rule::Allowed},
    {DT_SYMENT, "DT_SYMENT", Rule::Allowed},
    {DT_PLTGOT, "DT_PLTGOT", Rule::Allowed},
    {DT_PLTRELSZ, "DT_PLTRELSZ", Rule::Allowed},
    {DT_PLTREL, "DT_PLTREL", Rule::Allowed},
    {DT_JMPREL, "DT_JMPREL", Rule::Allowed},
    {DT_RELA, "DT_RELA", Rule::Allowed},
    {DT_RELASZ, "DT_RELASZ", Rule::Allowed},
    {DT_RELAENT, "DT_RELAENT", Rule::Allowed},
    {DT_RELACOUNT, "DT_RELACOUNT", Rule::Allowed},
    {36, "DT_RELR", Rule::Allowed},
    {35, "DT_RELRSZ", Rule::Allowed},
    {37, "DT_RELRENT", Rule::Allowed},
    {DT_VERNEED, "DT_VERNEED", Rule::Allowed},
    {DT_VERNEEDNUM, "DT_VERNEEDNUM", Rule::Allowed},
    {DT_VERSYM, "DT_VERSYM", Rule::Allowed},
    {DT_BIND_NOW, "DT_BIND_NOW", Rule::Allowed},
    {DT_FLAGS, "DT_FLAGS", Rule::Allowed},
    {DT_FLAGS_1, "DT_FLAGS_1", Rule::Allowed},
    {0x70000001, "DT_AARCH64_BTI_PLT", Rule::OnAarch64},
    {0x70000003, "DT_AARCH64_PAC_PLT", Rule::OnAarch64},
    {0x70000005, "DT_AARCH64_VARIANT_PCS", Rule::OnAarch64},
    {DT_INIT, "DT_INIT", Rule::Runs},
    {DT_FINI, "DT_FINI", Rule::Runs},
    {DT_INIT_ARRAY, "DT_INIT_ARRAY", Rule::Runs},
    {DT_INIT_ARRAYSZ, "DT_INIT_ARRAYSZ", Rule::Runs},
    {DT_FINI_ARRAY, "DT_FINI_ARRAY", Rule::Runs},
    {DT_FINI_ARRAYSZ, "DT_FINI_ARRAYSZ", Rule::Runs},
    {DT_PREINIT_ARRAY, "DT_PREINIT_ARRAY", Rule::Runs},
    {DT_PREINIT_ARRAYSZ, "DT_PREINIT_ARRAYSZ", Rule::Runs},
    {DT_RPATH, "DT_RPATH", Rule::Redirects},
    {DT_RUNPATH, "DT_RUNPATH", Rule::Redirects},
    {DT_SONAME, "DT_SONAME", Rule::Redirects},
    {DT_AUDIT, "DT_AUDIT", Rule::Redirects},
    {DT_DEPAUDIT, "DT_DEPAUDIT", Rule::Redirects},
    {DT_FILTER, "DT_FILTER", Rule::Redirects},
    {DT_AUXILIARY, "DT_AUXILIARY", Rule::Redirects},
    {DT_SYMBOLIC, "DT_SYMBOLIC", Rule::Redirects},
    {DT_TEXTREL, "DT_TEXTREL", Rule::Rewrites},
    {DT_REL, "DT_REL", Rule::Other},
    {DT_VERDEF, "DT_VERDEF", Rule::Other},
    {DT_VERDEFNUM, "DT_VERDEFNUM", Rule::Other},
    {DT_DEBUG, "DT_DEBUG", Rule::Other},
};

const Tag* find_tag(int64_t tag) {
  for (const Tag& t : kTags) {
    if (t.tag == tag) return &t;
  }
  return nullptr;
}

// Functions that GCC and Clang call for loops that copy, fill and compare, and for a stack
// protector.
constexpr std::string_view kPlain[] = {"memcpy", "memset",           "memmove",          "memcmp",
                                       "bcmp",   "__stack_chk_fail", "__stack_chk_guard"};

// The functions of <math.h> that only compute: none that sets `signgam`, none that prints.
constexpr std::string_view kMath[] = {
    "acos",      "acosh",    "asin",      "asinh",  "atan",  "atan2",  "atanh",     "cbrt",
    "ceil",      "copysign", "cos",       "cosh",   "erf",   "erfc",   "exp",       "exp10",
    "exp2",      "expm1",    "fabs",      "fdim",   "floor", "fma",    "fmax",      "fmin",
    "fmod",      "frexp",    "hypot",     "ilogb",  "ldexp", "llrint", "llround",   "log",
    "log10",     "log1p",    "log2",      "logb",   "lrint", "lround", "modf",      "nearbyint",
    "nextafter", "pow",      "remainder", "remquo", "rint",  "round",  "roundeven", "scalbln",
    "scalbn",    "sin",      "sincos",    "sinh",   "sqrt",  "tan",    "tanh",      "tgamma",
    "trunc",
};

constexpr std::string_view kLibraries[] = {"libm.so.6", "libc.so.6", "ld-linux-aarch64.so.1"};
constexpr std::string_view kRuntimes[] = {"libstdc++.so.6", "libgcc_s.so.1", "libc++.so.1",
                                          "libc++abi.so.1"};

template <size_t N>
bool is_among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::string tag_name(int64_t tag) {
  const Tag* known = find_tag(tag);
  return known != nullptr ? known->name : fmt::format("the tag {:#x}", tag);
}

std::string tag_problem(int64_t tag, bool aarch64) {
  const Tag* known = find_tag(tag);
  switch (known != nullptr ? known->rule : Rule::Other) {
    case Rule::Allowed: return {};
    case Rule::OnAarch64:
      if (aarch64) return {};
      break;
    case Rule::Runs:
      return fmt::format("it has code that runs when it is loaded or unloaded ({})", known->name);
    case Rule::Redirects:
      return fmt::format("it changes which library is taken for a name ({})", known->name);
    case Rule::Rewrites:
      return fmt::format("its code is rewritten when it is loaded ({})", known->name);
    case Rule::Other: break;
  }
  return fmt::format("its dynamic section has {}, which no kernel has", tag_name(tag));
}

const std::vector<std::vector<int64_t>>& tag_groups() {
  static const std::vector<std::vector<int64_t>> groups = {
      {DT_SYMTAB, DT_SYMENT, DT_STRTAB, DT_STRSZ},
      {DT_RELA, DT_RELASZ, DT_RELAENT},
      {DT_JMPREL, DT_PLTREL, DT_PLTRELSZ},
      {36, 35, 37},  // of DT_RELR
      {DT_VERSYM, DT_VERNEED, DT_VERNEEDNUM}};
  return groups;
}

bool is_known_library(std::string_view name, ObjectKind kind) {
  return is_among(kLibraries, name) || (kind == ObjectKind::Emulation && is_among(kRuntimes, name));
}

bool is_known_function(std::string_view name, ObjectKind kind) {
  if (kind == ObjectKind::Emulation || is_among(kPlain, name) || is_among(kMath, name)) return true;
  // The same for float; for long double there is no code.
  return !name.empty() && name.back() == 'f' && is_among(kMath, name.substr(0, name.size() - 1));
}

}  // namespace tilewright
