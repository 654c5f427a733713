#include "cli/export_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cli/command.h"
#include "codegen/c_types.h"
#include "ir/error.h"
#include "runtime/element.h"
#include "runtime/kernel.h"
#include "runtime/operands.h"
#include "runtime/reference.h"

namespace tilewright::cli {
namespace {

constexpr int kStoredValues = 64;
constexpr double kSmallFlops = 2e9;  // the untuned loops take about a second for as many

std::map<std::string, int64_t> dims_of(const Workload& w) {
  std::map<std::string, int64_t> dims;
  for (const DimVar& d : w.dims) dims[d.var.name()] = d.max;
  return dims;
}

// The values of one operand, by a formula that the oracle evaluates here and C evaluates there:
// multiples of 2^-23 in [-1, 1) for wide floats, small integers, and one of 16 codes for the rest.
class CheckValues {
 public:
  explicit CheckValues(const OperandInfo& info)
      : info_(info), key_(XXH3_64bits(info.name.data(), info.name.size())) {}

  double at(int64_t index) const;
  // "static void fill_A(void* data, int64_t count) …"
  std::string c_function() const;

 private:
  bool wide_float() const { return info_.elem == ElemType::f32 || info_.elem == ElemType::f64; }
  bool plain_integer() const { return is_integer(info_.elem) && bits_of(info_.elem) >= 8; }
  uint64_t code(int k) const;  // of 16
  std::string c_value() const;

  const OperandInfo& info_;
  uint64_t key_;
};

// The finalizer of splitmix64, as in kMix.
uint64_t mix(uint64_t key, int64_t index) {
  uint64_t z = key + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr const char* kMix = R"(static uint64_t mix(uint64_t key, int64_t index) {
  uint64_t z = key + (uint64_t)index * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
)";

uint64_t CheckValues::code(int k) const {
  if (is_float(info_.elem)) return encode_element(info_.elem, (k - 8) / 8.0);
  return static_cast<uint64_t>(k) & ((uint64_t{1} << bits_of(info_.elem)) - 1);
}

double CheckValues::at(int64_t index) const {
  uint64_t hash = mix(key_, index);
  if (info_.range) {
    auto rows = static_cast<uint64_t>(info_.range->max - info_.range->min) + 1;
    return info_.range->min + static_cast<double>(hash % rows);
  }
  if (wide_float()) return static_cast<double>(hash >> 40) * 0x1p-23 - 1;
  if (plain_integer()) {
    int k = static_cast<int>(hash >> 60);
    return info(info_.elem).kind == ElemKind::UInt ? k : k - 8;
  }
  return decode_element(info_.elem, code(static_cast<int>(hash >> 60)));
}

std::string CheckValues::c_value() const {
  if (info_.range) {
    return fmt::format("{} + (int64_t)(hash % {}u)", static_cast<int64_t>(info_.range->min),
                       static_cast<int64_t>(info_.range->max - info_.range->min) + 1);
  }
  if (wide_float()) return "(double)(hash >> 40) * 0x1p-23 - 1";
  if (plain_integer()) {
    return info(info_.elem).kind == ElemKind::UInt ? "hash >> 60" : "(int)(hash >> 60) - 8";
  }
  return "codes[hash >> 60]";
}

std::string CheckValues::c_function() const {
  std::string type = storage_type(info_.elem), codes;
  if (!info_.range && !wide_float() && !plain_integer()) {
    // The codes are the elements' bits, whatever the compiler makes of their type.
    type = bits_of(info_.elem) == 16 ? "uint16_t" : "uint8_t";
    for (int k = 0; k < 16; ++k) codes += fmt::format("{}{}", k == 0 ? "" : ", ", code(k));
    codes = fmt::format("  static const {} codes[16] = {{{}}};\n", type, codes);
  }
  return fmt::format(
      "static void fill_{0}(void* data, int64_t count) {{\n{1}  {2}* to = data;\n"
      "  for (int64_t i = 0; i < count; ++i) {{\n    uint64_t hash = mix({3}u, i);\n"
      "    to[i] = ({2})({4});\n  }}\n}}\n",
      c_name(info_.name), codes, type, key_, c_value());
}

// The C expression of element `i` of the array `p` as a double.
std::string element_as_double(ElemType elem) {
  switch (elem) {
    case ElemType::bf16:
      return "float x; uint32_t bits = (uint32_t)p[i] << 16; memcpy(&x, &bits, 4); return x;";
    case ElemType::f16: return "_Float16 x; memcpy(&x, p + i, 2); return (double)x;";
    default: break;
  }
  bool plain =
      elem == ElemType::f32 || elem == ElemType::f64 || (is_integer(elem) && bits_of(elem) >= 8);
  if (!plain) {
    throw UsageError(fmt::format(
        "export: the self check cannot read an output of type {}; it reads f64, f32, f16, bf16 and "
        "integers of 8 bits or more",
        to_string(elem)));
  }
  return "return (double)p[i];";
}

std::string number(double x) {
  if (std::isnan(x)) return "NAN";
  if (std::isinf(x)) return x > 0 ? "INFINITY" : "-INFINITY";
  return fmt::format("{:.17g}", x);
}

struct Expected {
  std::string table;
  double largest_bound = 0;
};

Expected expected_values(const Workload& w, const std::vector<OperandInfo>& infos) {
  std::map<std::string, ElementReader> readers;
  for (const OperandInfo& info : infos) {
    if (info.role == ParamRole::Output) continue;
    readers[info.name] = [values = CheckValues(info)](int64_t i) { return values.at(i); };
  }
  Oracle oracle(w, readers, dims_of(w));
  const OperandInfo& out = infos.back();
  Expected expected;
  for (int64_t index : sample_indices(out.shape, kStoredValues, 0)) {
    Oracle::Value value = oracle.at(index);
    double bound = allowed_error(out.elem, value);
    if (std::isfinite(bound)) expected.largest_bound = std::max(expected.largest_bound, bound);
    expected.table +=
        fmt::format("    {{{}, {}, {}}},\n", index, number(value.value), number(bound));
  }
  return expected;
}

constexpr const char* kCompare = R"(
static double worst; /* of all differences so far */

/* Whether `got` is within `allowed` of `want`. */
static int near_enough(const char* what, int64_t index, double got, double want, double allowed) {
  double error = got == want || (isnan(got) && isnan(want)) ? 0 : fabs(got - want);
  if (error > worst) worst = error;
  if (error <= allowed) return 1;
  printf("wrong: element %lld is %.9g, %s %.9g, allowed difference %.3g\n", (long long)index, got,
         what, want, allowed);
  return 0;
}

static void* operand(int64_t bytes) {
  void* memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  if (!memory) {
    puts("out of memory");
    exit(1);
  }
  return memory;
}

static void serial_for(void* pool, int64_t n,
                       void (*body)(void* closure, int64_t begin, int64_t end, int32_t worker),
                       void* closure) {
  (void)pool;
  if (n > 0) body(closure, 0, n, 0);
}
)";

int64_t count_of(const OperandInfo& o) {
  int64_t count = 1;
  for (int64_t extent : o.shape) count *= extent;
  return count;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// The body of main: operands, packing, the kernel, both comparisons.
std::string main_body(const ExportedKernel& k, const std::vector<OperandInfo>& infos,
                      const Expected& expected) {
  const KernelDescription& d = k.kernel.description;
  std::string name = export_name(*k.workload), out, output = c_name(infos.back().name);
  for (const OperandInfo& o : infos) {
    out +=
        fmt::format("  void* {} = operand({});\n", c_name(o.name), bytes_for(o.elem, count_of(o)));
    if (o.role != ParamRole::Output) {
      out += fmt::format("  fill_{0}({0}, {1});\n", c_name(o.name), count_of(o));
    }
  }
  for (const KernelFunction& pack : d.packs) {
    std::string weight = c_name(pack.params[0].name), packed = c_name(pack.params[1].name);
    std::string macro = fmt::format("{}_{}_BYTES", name, packed);
    std::transform(macro.begin(), macro.end(), macro.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    out +=
        fmt::format("  void* {0} = operand({1});\n  if ({2}_pack_{3}({3}, {0}) != 0) return 1;\n",
                    packed, macro, name, weight);
  }
  std::vector<std::string> arguments, reference;
  for (const KernelParam& p : d.main.params) arguments.push_back(c_name(p.name));
  for (int64_t extent : check_dims(*k.workload)) arguments.push_back(std::to_string(extent));
  arguments.push_back("0");
  for (const KernelParam& p : k.reference.description.main.params) {
    reference.push_back(p.role == ParamRole::Output ? "reference" : c_name(p.name));
  }
  std::vector<int64_t> dims = check_dims(*k.workload);
  if (dims.empty()) dims.push_back(0);
  int64_t bytes = bytes_for(infos.back().elem, count_of(infos.back()));
  out += fmt::format(
      "  memset({0}, 0xff, {1}); /* what is not written shows */\n"
      "  if ({2}({3}) != 0) return 1;\n"
      "  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {{\n"
      "    if (!near_enough(\"in exact arithmetic\", expected[i].index,\n"
      "                     value_of({0}, expected[i].index), expected[i].value, "
      "expected[i].allowed)) {{\n      return 1;\n    }}\n  }}\n"
      "  int full = {4} || (argc > 1 && strcmp(argv[1], \"full\") == 0);\n"
      "  if (full) {{\n    void* reference = operand({1});\n"
      "    memset(reference, 0xff, {1});\n"
      "    void* args[] = {{{5}}};\n    const int64_t dims[] = {{{6}}};\n"
      "    tw_context serial = {{1, serial_for, 0, operand({7})}};\n"
      "    if (tw_main(args, dims, &serial) != 0) return 1;\n"
      "    for (int64_t i = 0; i < {8}; ++i) {{\n"
      "      if (!near_enough(\"by the untuned loops\", i, value_of({0}, i), value_of(reference, "
      "i), {9})) {{\n        return 1;\n      }}\n    }}\n  }}\n"
      "  printf(\"ok: max error %.3g over %d stored values%s\\n\", worst,\n"
      "         (int)(sizeof expected / sizeof expected[0]),\n"
      "         full ? \" and all elements of the untuned loops\" : \"; 'full' compares all\");\n"
      "  return 0;\n",
      output, bytes, name, joined(arguments), k.workload->flops <= kSmallFlops ? 1 : 0,
      joined(reference), fmt::join(dims, ", "),
      std::max<int64_t>(64, workspace_bytes(k.reference.description.main, 1)),
      count_of(infos.back()), number(4 * expected.largest_bound));
  return out;
}

}  // namespace

std::string export_check(const ExportedKernel& k) {
  TW_ASSERT(k.reference.description.packs.empty(), "the untuned default packs nothing");
  if (k.workload->weight) {
    throw UsageError(
        "export: the self check makes plain dense weights alone, so a spec with w.dtype or "
        "w.sparse is not exported; replay and run use it from the database");
  }
  std::vector<OperandInfo> infos = operands_of(*k.workload, dims_of(*k.workload));
  std::string name = export_name(*k.workload), reader = element_as_double(infos.back().elem);
  Expected expected = expected_values(*k.workload, infos);
  std::string out = fmt::format(
      "/* Checks {0}(): some elements against values that were computed in f64, all of them "
      "against "
      "the\n * loops as the definition has them. Build and run:\n *   {1} && ./{0}_check\n */\n"
      "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
      "#include \"{0}.h\"\n\n/* The untuned loops: tw_main(). */\n{2}\n",
      name, build_line(k), embedded_code(k.reference));
  out += kMix;
  for (const OperandInfo& o : infos) {
    if (o.role != ParamRole::Output) out += CheckValues(o).c_function();
  }
  out += fmt::format(
      "\nstatic double value_of(const void* array, int64_t i) {{\n  const {}* p = array;\n  "
      "{}\n}}\n",
      infos.back().elem == ElemType::f16 ? "uint16_t" : storage_type(infos.back().elem), reader);
  out += kCompare;
  out += fmt::format(
      "\nint main(int argc, char** argv) {{\n  static const struct {{\n    int64_t index;\n    "
      "double "
      "value, allowed;\n  }} expected[] = {{\n{}  }};\n{}}}\n",
      expected.table, main_body(k, infos, expected));
  return out;
}

}  // namespace tilewright::cli
