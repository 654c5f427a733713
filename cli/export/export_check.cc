#include "cli/export/export_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/command.h"
#include "cli/export/export_values.h"
#include "codegen/c/c_types.h"
#include "runtime/check/reference.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/operands.h"

namespace tilewright::cli {
namespace {

constexpr int kStoredValues = 64;
constexpr double kSmallFlops = 2e9;  // the untuned loops take about a second for as many

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

// Functions that fill the operands. A sparse weight's function calls that of its zero points.
std::string fill_functions(const std::vector<OperandInfo>& infos) {
  std::string dense, sparse;
  for (const OperandInfo& o : infos) {
    if (o.role == ParamRole::Output) continue;
    (o.pattern ? sparse : dense) += CheckValues(o, infos).c_functions();
  }
  return export_values_prelude() + dense + sparse;
}

struct Expected {
  std::string table;
  double largest_bound = 0;
};

Expected expected_values(const Workload& w, const std::vector<OperandInfo>& infos,
                         NarrowSums narrow) {
  std::map<std::string, ElementReader> readers;
  for (const OperandInfo& info : infos) {
    if (info.role == ParamRole::Output) continue;
    readers[info.name] = [values = CheckValues(info, infos)](int64_t i) { return values.at(i); };
  }
  Oracle oracle(w, readers, largest_sizes(w), narrow);
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
                      const Expected& expected, const std::string& call) {
  const KernelDescription& d = k.kernel.description;
  std::string out, output = c_name(infos.back().name);
  for (const OperandInfo& o : infos) {
    out +=
        fmt::format("  void* {} = operand({});\n", c_name(o.name), bytes_for(o.elem, count_of(o)));
    if (o.role != ParamRole::Output) {
      out += fmt::format("  fill_{0}({0}, {1});\n", c_name(o.name), count_of(o));
    }
  }
  for (const KernelFunction& pack : d.packs) {
    std::string packed = c_name(pack.params.back().name);
    out += fmt::format("  void* {0} = operand({1});\n  if ({2}({3}) != 0) return 1;\n", packed,
                       packed_bytes_macro(k, pack), pack_name(k, pack), pack_arguments(pack));
  }
  std::vector<std::string> reference;
  for (const KernelParam& p : k.reference.description.main.params) {
    reference.push_back(p.role == ParamRole::Output ? "reference" : c_name(p.name));
  }
  std::vector<int64_t> dims = check_dims(*k.workload);
  if (dims.empty()) dims.push_back(0);
  int64_t bytes = bytes_for(infos.back().elem, count_of(infos.back()));
  out += fmt::format(
      "  memset({0}, 0xff, {1}); /* what is not written shows */\n"
      "  if ({2} != 0) return 1;\n"
      "  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; ++i) {{\n"
      "    if (!near_enough(\"in exact arithmetic\", expected[i].index,\n"
      "                     value_of({0}, expected[i].index), expected[i].value, "
      "expected[i].allowed)) {{\n      return 1;\n    }}\n  }}\n"
      "  int full = {3} || (argc > 1 && strcmp(argv[1], \"full\") == 0);\n"
      "  if (full) {{\n    void* reference = operand({1});\n"
      "    memset(reference, 0xff, {1});\n"
      "    void* args[] = {{{4}}};\n    const int64_t dims[] = {{{5}}};\n"
      "    tw_context serial = {{1, serial_for, 0, operand({6})}};\n"
      "    if (tw_main(args, dims, &serial) != 0) return 1;\n"
      "    for (int64_t i = 0; i < {7}; ++i) {{\n"
      "      if (!near_enough(\"by the untuned loops\", i, value_of({0}, i), value_of(reference, "
      "i), {8})) {{\n        return 1;\n      }}\n    }}\n  }}\n"
      "  printf(\"ok: max error %.3g over %d stored values%s\\n\", worst,\n"
      "         (int)(sizeof expected / sizeof expected[0]),\n"
      "         full ? \" and all elements of the untuned loops\" : \"; 'full' compares all\");\n"
      "  return 0;\n",
      output, bytes, call, k.workload->flops <= kSmallFlops ? 1 : 0, joined(reference),
      fmt::join(dims, ", "),
      std::max<int64_t>(64, workspace_bytes(k.reference.description.main, 1)),
      count_of(infos.back()), number(4 * expected.largest_bound));
  return out;
}

}  // namespace

std::string export_check(const ExportedKernel& k) {
  std::vector<std::string> arguments;
  for (const KernelParam& p : k.kernel.description.main.params) arguments.push_back(c_name(p.name));
  for (int64_t extent : check_dims(*k.workload)) arguments.push_back(std::to_string(extent));
  arguments.push_back("0");
  return export_check(
      k,
      {"", "", fmt::format("{}({})", export_name(*k.workload), joined(arguments)), build_line(k)});
}

std::string export_check(const ExportedKernel& k, const CheckedCall& checked) {
  TW_ASSERT(k.reference.description.packs.empty(), "the untuned default packs nothing");
  std::vector<OperandInfo> infos = operands_of(*k.workload, largest_sizes(*k.workload));
  std::string name = export_name(*k.workload), reader = element_as_double(infos.back().elem);
  Expected expected = expected_values(*k.workload, infos, checked.narrow);
  std::string out = fmt::format(
      "/* Checks {0}(): some elements against values that were computed in f64, all of them "
      "against "
      "the\n * loops as the definition has them. Build and run:\n *   {1} && ./{0}_check\n */\n"
      "#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n"
      "#include \"{0}.h\"\n\n{3}/* The untuned loops: tw_main(). */\n{2}\n",
      name, checked.build, embedded_code(k.reference), checked.declarations);
  out += fill_functions(infos);
  out += fmt::format(
      "\nstatic double value_of(const void* array, int64_t i) {{\n  const {}* p = array;\n  "
      "{}\n}}\n",
      infos.back().elem == ElemType::f16 ? "uint16_t" : storage_type(infos.back().elem), reader);
  out += kCompare + checked.functions;
  out += fmt::format(
      "\nint main(int argc, char** argv) {{\n  static const struct {{\n    int64_t index;\n    "
      "double "
      "value, allowed;\n  }} expected[] = {{\n{}  }};\n{}}}\n",
      expected.table, main_body(k, infos, expected, checked.call));
  return out;
}

}  // namespace tilewright::cli
