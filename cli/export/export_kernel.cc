#include "cli/export/export_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "codegen/c/c_types.h"
#include "ir/ops/spec.h"
#include "runtime/load/kernel.h"
#include "tilewright/version.h"

namespace tilewright::cli {
namespace {

std::string identifier(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 0x80
               ? c
               : '_';
  }
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "k" + out : out;
}

// C++ knows no _Float16 here: its bits are what is handed over.
std::string public_type(ElemType elem) {
  return elem == ElemType::f16 ? "uint16_t" : storage_type(elem);
}

std::string pointer(const KernelParam& p, bool writable) {
  return fmt::format("{}{}* {}", writable ? "" : "const ", public_type(p.elem), c_name(p.name));
}

// "const float* A, const float* B_packed, float* C, int64_t m, const tw_context* context".
std::string parameters(const KernelDescription& d) {
  std::string out;
  for (const KernelParam& p : d.main.params) out += pointer(p, p.role == ParamRole::Output) + ", ";
  for (const std::string& dim : d.dims) out += "int64_t " + c_name(dim) + ", ";
  return out + "const tw_context* context";
}

std::string pack_signature(const ExportedKernel& k, const KernelFunction& pack) {
  std::string params;
  for (const KernelParam& p : pack.params) {
    params += (params.empty() ? "" : ", ") + pointer(p, &p == &pack.params.back());
  }
  return fmt::format("int {}({})", pack_name(k, pack), params);
}

constexpr const char* kContext = R"(#ifndef TILEWRIGHT_KERNEL_ABI_H_
#define TILEWRIGHT_KERNEL_ABI_H_
/* How a kernel runs its parallel loops. parallel_for(pool, n, body, closure) is to call
 * body(closure, begin, end, worker) on disjoint ranges that together make [0, n), on as many threads
 * as it likes up to `threads`, with 0 <= worker < threads and never two calls at once with one
 * worker number, and to return when all are done. With OpenMP:
 *
 *   static void with_openmp(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
 *                           void* closure) {
 *     int64_t threads = omp_get_max_threads();
 *   #pragma omp parallel for num_threads(threads)
 *     for (int32_t t = 0; t < threads; ++t)
 *       body(closure, n * t / threads, n * (t + 1) / threads, t);
 *   }
 */
typedef struct tw_context {
  int32_t threads;
  void (*parallel_for)(void* pool, int64_t n,
                       void (*body)(void* closure, int64_t begin, int64_t end, int32_t worker),
                       void* closure);
  void* pool;      /* handed to parallel_for as it is */
  void* workspace; /* aligned to 64 bytes, of the size that the kernel asks for; may be null for 0 */
} tw_context;
#endif
)";

constexpr const char* kSerialFor = R"(
static void serial_for(void* pool, int64_t n,
                       void (*body)(void* closure, int64_t begin, int64_t end, int32_t worker),
                       void* closure) {
  (void)pool;
  if (n > 0) body(closure, 0, n, 0);
}
)";

constexpr const char* kRunSerially = R"(
static int run_serially(int32_t (*function)(void* const*, const int64_t*, const tw_context*),
                        void* const* args, const int64_t* dims, size_t workspace_bytes) {
  tw_context context = {1, serial_for, 0, 0};
  if (workspace_bytes > 0 && !(context.workspace = aligned_alloc(64, workspace_bytes))) return -1;
  int status = function(args, dims, &context);
  free(context.workspace);
  return status;
}
)";

// Warnings off: the generated text is free to do things of which a caller's -Wall would complain.
const std::string kQuiet =
    "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n"
    "#pragma GCC diagnostic ignored \"-Wunused-function\"\n"
    // Vectors of indices are wider than the registers of some targets. No function is called from
    // elsewhere, so none has an interface that could change.
    "#pragma GCC diagnostic ignored \"-Wpsabi\"\n"
    "#if defined(__GNUC__) && !defined(__clang__)\n"
    "#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"\n#endif\n\n";

}  // namespace

std::string c_name(const std::string& name) {
  static const std::set<std::string> taken = {
      "auto",     "break",   "case",     "char",     "class",  "const",   "context",
      "continue", "default", "delete",   "do",       "double", "else",    "enum",
      "extern",   "float",   "for",      "goto",     "if",     "inline",  "int",
      "long",     "new",     "register", "restrict", "return", "short",   "signed",
      "sizeof",   "static",  "struct",   "switch",   "this",   "typedef", "union",
      "unsigned", "void",    "volatile", "while",    "args",   "dims"};
  std::string out = identifier(name);
  return taken.contains(out) ? out + "_" : out;
}

std::string export_name(const Workload& w) {
  return identifier(w.label.empty() ? w.op : w.label) + "_" + w.hash().substr(0, 8);
}

std::string pack_name(const ExportedKernel& k, const KernelFunction& pack) {
  const std::vector<KernelFunction>& packs = k.kernel.description.packs;
  auto same = std::count_if(packs.begin(), packs.end(), [&](const KernelFunction& other) {
    return other.params[0].name == pack.params[0].name;
  });
  return export_name(*k.workload) + "_pack_" +
         c_name(same == 1 ? pack.params[0].name : pack.params.back().name);
}

std::string pack_arguments(const KernelFunction& pack) {
  std::string out;
  for (const KernelParam& p : pack.params) out += (out.empty() ? "" : ", ") + c_name(p.name);
  return out;
}

std::string packed_bytes_macro(const ExportedKernel& k, const KernelFunction& pack) {
  return macro_name(export_name(*k.workload) + "_" + c_name(pack.params.back().name)) + "_BYTES";
}

int64_t packed_bytes(const ExportedKernel& k, const KernelFunction& pack) {
  int64_t count = 1;
  for (int64_t extent : concrete_shape(pack.params.back(), check_dims(*k.workload))) {
    count *= extent;
  }
  return bytes_for(pack.params.back().elem, count);
}

std::string in_comment(std::string text) {
  for (size_t at = 0; (at = text.find("*/", at)) != std::string::npos;) text.insert(at + 1, " ");
  return text;
}

std::vector<int64_t> check_dims(const Workload& w) {
  std::vector<int64_t> dims;
  for (const DimVar& d : w.dims) dims.push_back(d.max);
  return dims;
}

std::string embedded_code(const KernelSource& source) {
  const std::string end_of_types = "} tw_context;\n";
  size_t at = source.code.find(end_of_types);
  TW_ASSERT(at != std::string::npos, "generated code declares tw_context");
  std::string code = source.code.substr(at + end_of_types.size());
  std::vector<std::string> symbols = {source.description.main.symbol};
  for (const KernelFunction& pack : source.description.packs) symbols.push_back(pack.symbol);
  for (const std::string& symbol : symbols) {
    size_t definition = code.find("\nint32_t " + symbol + "(");
    TW_ASSERT(definition != std::string::npos, "generated code defines " + symbol);
    code.insert(definition + 1, "static ");
  }
  return kQuiet + code;
}

std::string build_line(const ExportedKernel& k) {
  std::string name = export_name(*k.workload);
  return fmt::format("cc -O3 -fno-math-errno -fno-trapping-math {} {}.c {}_check.c -lm -o {}_check",
                     fmt::join(k.kernel.flags, " "), name, name, name);
}

std::string shape_text(const KernelParam& p, const std::vector<std::string>& dims) {
  std::string out;
  for (const KernelExtent& extent : p.shape) {
    out += (out.empty() ? "" : ", ") + extent.to_c(dims);
  }
  return "[" + out + "]";
}

std::string macro_name(const std::string& text) {
  std::string name = text;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string context_declaration() { return kContext; }

std::string serial_loop() { return kSerialFor; }

std::string packing_declarations(const ExportedKernel& k) {
  const KernelDescription& d = k.kernel.description;
  std::string out;
  for (const KernelFunction& pack : d.packs) {
    out += fmt::format(
        "/* {0}, as the kernel reads it: made once by {1}() from {2} {3}, as\n"
        " * many bytes as the macro says. Returns 0, or -1 when memory runs out. */\n"
        "#define {4} {5}\n{6};\n\n",
        c_name(pack.params.back().name), pack_name(k, pack), c_name(pack.params[0].name),
        shape_text(pack.params[0], d.dims), packed_bytes_macro(k, pack), packed_bytes(k, pack),
        pack_signature(k, pack));
  }
  return out;
}

std::string packing_definitions(const ExportedKernel& k) {
  std::string out = embedded_code(k.kernel) + kSerialFor + kRunSerially;
  for (const KernelFunction& pack : k.kernel.description.packs) {
    std::string arguments;
    for (const KernelParam& p : pack.params) {
      arguments += (arguments.empty() ? "(void*)" : ", (void*)") + c_name(p.name);
    }
    out += fmt::format(
        "\n{} {{\n  void* args[] = {{{}}};\n  return run_serially({}, args, 0, {});\n}}\n",
        pack_signature(k, pack), arguments, pack.symbol, workspace_bytes(pack, 1));
  }
  return out;
}

std::string header_comment(const ExportedKernel& k, const std::string& needs,
                           const std::string& build) {
  std::string expression = in_comment(to_string(*k.workload));
  for (size_t at = 0; (at = expression.find('\n', at)) + 1 < expression.size();) {
    expression.insert(++at, " *   ");
  }
  return fmt::format(
      "/* {}\n *   {} * {}.\n * Made by Tilewright {}; {}. Build and check:\n"
      " *   {} && ./{}_check\n */\n",
      in_comment(spec_to_inline(parse_spec(k.workload->canonical))), expression,
      in_comment(k.origin), TILEWRIGHT_VERSION, needs, build, export_name(*k.workload));
}

std::string export_header(const ExportedKernel& k) {
  const KernelDescription& d = k.kernel.description;
  std::string name = export_name(*k.workload), operands;
  for (const KernelParam& p : d.main.params) {
    operands += fmt::format(" *   {:<12} {} {}{}\n", c_name(p.name), to_string(p.elem),
                            shape_text(p, d.dims), p.role == ParamRole::Output ? ", written" : "");
  }
  std::string out = header_comment(k, "needs nothing else", build_line(k));
  out += fmt::format(
      "#ifndef {0}_H_\n#define {0}_H_\n\n#include <stddef.h>\n"
      "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{1}\n",
      macro_name(name), kContext);
  out += packing_declarations(k);
  out += fmt::format(
      "/* Bytes of tw_context.workspace for a context of so many threads. */\n"
      "size_t {}_workspace_bytes(int threads);\n\n"
      "/* Computes the operator on row-major arrays, each aligned to 64 bytes:\n{}"
      " * A null context runs on the calling thread, and takes the workspace from the heap.\n"
      " * Safe from several threads, each with a workspace of its own. Returns 0, or -1 when "
      "memory\n"
      " * runs out. */\nint {}({});\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n",
      name, operands, name, parameters(d));
  return out;
}

std::string export_source(const ExportedKernel& k) {
  const KernelDescription& d = k.kernel.description;
  std::string name = export_name(*k.workload);
  std::string out =
      fmt::format("/* See {0}.h. */\n#include \"{0}.h\"\n\n#include <stdlib.h>\n\n", name);
  out += packing_definitions(k);
  std::string args, dims;
  for (const KernelParam& p : d.main.params)
    args += (args.empty() ? "(void*)" : ", (void*)") + c_name(p.name);
  for (const std::string& dim : d.dims) dims += (dims.empty() ? "" : ", ") + c_name(dim);
  out += fmt::format(
      "\nsize_t {0}_workspace_bytes(int threads) {{ return {1} + (size_t)threads * {2}; }}\n"
      "\nint {0}({3}) {{\n  void* args[] = {{{4}}};\n  const int64_t dims[] = {{{5}}};\n"
      "  if (!context) return run_serially(tw_main, args, dims, {0}_workspace_bytes(1));\n"
      "  return tw_main(args, dims, context);\n}}\n",
      name, d.main.workspace_bytes, d.main.workspace_bytes_per_thread, parameters(d), args,
      dims.empty() ? "0" : dims);
  return out;
}

}  // namespace tilewright::cli
