#include "cli/export/export_shared.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/ops/spec.h"
#include "runtime/compile/compile.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

// The flags that the kernel has, and those of its threads.
std::vector<std::string> flags_of(const ExportedKernel& k) {
  std::vector<std::string> flags = k.kernel.flags;
  if (k.threads != 1) flags.emplace_back("-fopenmp");
  return flags;
}

// The facts on operands that a program needs which finds the object alone, as JSON.
std::string description(const ExportedKernel& k) {
  const KernelDescription& d = k.kernel.description;
  auto json_of = [&](const KernelParam& p) {
    Json shape = Json::array();
    for (const KernelExtent& e : p.shape) {
      shape.push_back(e.is_constant() ? Json(e.offset) : Json(e.to_c(d.dims)));
    }
    return Json{{"name", p.name}, {"type", to_string(p.elem)}, {"shape", shape}};
  };
  Json in = Json::array(), out = Json::array(), packs = Json::array();
  for (const KernelParam& p : d.main.params) {
    (p.role == ParamRole::Output ? out : in).push_back(json_of(p));
  }
  for (const KernelFunction& pack : d.packs) {
    Json from = Json::array();
    for (size_t i = 0; i + 1 < pack.params.size(); ++i) from.push_back(json_of(pack.params[i]));
    packs.push_back({{"function", pack_name(k, pack)},
                     {"from", from},
                     {"to", pack.params.back().name},
                     {"bytes", packed_bytes(k, pack)}});
  }
  return Json{{"function", export_name(*k.workload)},
              {"spec", spec_to_inline(parse_spec(k.workload->canonical))},
              {"in", in},
              {"out", out},
              {"dims", d.dims},
              {"packs", packs}}
      .dump();
}

std::string in_c_string(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

// {0}: the name.
constexpr const char* kRun = R"(
#ifdef _OPENMP
#include <omp.h>
static void tw_openmp_for(void* pool, int64_t n,
                          void (*body)(void* closure, int64_t begin, int64_t end, int32_t worker),
                          void* closure) {{
  int64_t threads = *(int32_t*)pool;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int32_t t = 0; t < threads; ++t)
    if (n * t / threads < n * (t + 1) / threads)
      body(closure, n * t / threads, n * (t + 1) / threads, t);
}}
#endif

/* The kernel on all threads of OpenMP where it was compiled with it, else on this one. */
static int tw_run_{0}(void* const* args, const int64_t* dims) {{
#ifdef _OPENMP
  int32_t threads = omp_get_max_threads();
  size_t bytes = ({0}_workspace_bytes(threads) + 63) / 64 * 64;
  tw_context context = {{threads, tw_openmp_for, &threads, 0}};
  if (bytes > 0 && !(context.workspace = aligned_alloc(64, bytes))) return -1;
  int status = tw_main(args, dims, &context);
  free(context.workspace);
  return status;
#else
  return run_serially(tw_main, args, dims, {0}_workspace_bytes(1));
#endif
}}
)";

// {0}: the name, {1}: the arguments.
constexpr const char* kCall = R"(
int {0}_call(const void* const* in, void* const* out, const int64_t* dims,
    const tw_context* context) {{
  void* const args[] = {{{1}}};
  for (size_t i = 0; i < sizeof args / sizeof args[0]; ++i)
    if (!args[i] || (uintptr_t)args[i] % 64 != 0) return -2;
  return context ? tw_main(args, dims, context) : tw_run_{0}(args, dims);
}}
)";

std::string comment(const ExportedKernel& k, const Conventions& with) {
  const KernelDescription& d = k.kernel.description;
  const std::string name = export_name(*k.workload);
  std::string in, out, dims;
  size_t next = 0;
  for (const KernelParam& p : d.main.params) {
    const bool written = p.role == ParamRole::Output;
    (written ? out : in) +=
        fmt::format(" *   {}[{}]  {} {} {}\n", written ? "out" : "in", written ? 0 : next,
                    c_name(p.name), to_string(p.elem), shape_text(p, d.dims));
    if (!written) ++next;
  }
  for (const std::string& dim : d.dims) dims += (dims.empty() ? "" : ", ") + dim;
  std::string text = fmt::format(
      "/* {0}.so, for programs that look functions up by name:\n *   {1}\n *\n"
      " * int {0}_call(const void* const* in, void* const* out, const int64_t* dims,\n"
      " *              const tw_context* context) computes the operator on row-major arrays, each\n"
      " * aligned to 64 bytes:\n{2}{3} * dims: {4}. A null context runs on {5}.\n"
      " * Returns 0, -1 when memory runs out, -2 for an array that is null or not aligned.\n"
      " * const char* {0}_description(void) says the same as JSON.\n"
      " * The functions of {0}.h are there, too: those that pack weights, and the kernel with "
      "typed\n"
      " * operands.\n",
      name, shared_build_line(k), in, out, dims.empty() ? "none, may be null" : in_comment(dims),
      k.threads != 1 ? "all threads of OpenMP" : "the calling thread");
  if (with.tvm_ffi) {
    text += fmt::format(
        " *\n * By tvm-ffi's convention, {0} takes the same operands as tensors on the CPU, the\n"
        " * output last, and finds the dims in their shapes. Packed weights and elements below a\n"
        " * byte are taken by their bytes, whatever type they are given. In Python:\n"
        " *   import tvm_ffi; tvm_ffi.load_module(\"./{0}.so\").{0}(…)\n",
        name);
  }
  if (with.jax_ffi) {
    text += fmt::format(
        " *\n * By XLA's convention for foreign functions, {0}_jax takes the same operands, the "
        "output "
        "as\n * its result. Packed weights and elements below a byte are arrays of u8. In Python:\n"
        " *   jax.ffi.register_ffi_target(\"{0}\",\n"
        " *       jax.ffi.pycapsule(ctypes.CDLL(\"./{0}.so\").{0}_jax), platform=\"cpu\")\n"
        " *   jax.ffi.ffi_call(\"{0}\", jax.ShapeDtypeStruct(shape, dtype))(…)\n",
        name);
  }
  return text + " */\n";
}

std::string call_function(const ExportedKernel& k) {
  std::string args;
  size_t next = 0;
  for (const KernelParam& p : k.kernel.description.main.params) {
    const std::string arg =
        p.role == ParamRole::Output ? "out[0]" : fmt::format("(void*)in[{}]", next++);
    args += (args.empty() ? "" : ", ") + arg;
  }
  return fmt::format(kCall, export_name(*k.workload), args);
}

// All that NAME_shared.c adds to NAME.c.
std::string additions(const ExportedKernel& k, const Conventions& with) {
  const std::string name = export_name(*k.workload);
  std::string text = fmt::format(kRun, name) + call_function(k);
  text += fmt::format("\nconst char* {}_description(void) {{\n  return \"{}\";\n}}\n", name,
                      in_c_string(description(k)));
  if (with.tvm_ffi) text += tvm_ffi_functions(k);
  if (with.jax_ffi) text += jax_ffi_functions(k);
  return text;
}

}  // namespace

std::string shared_source(const ExportedKernel& k, const Conventions& with) {
  return fmt::format("{}#include \"{}.c\"\n{}", comment(k, with), export_name(*k.workload),
                     additions(k, with));
}

std::string shared_build_line(const ExportedKernel& k) {
  const std::string name = export_name(*k.workload);
  return fmt::format(
      "cc -O3 -shared -fPIC -fno-math-errno -fno-trapping-math {} {}_shared.c -lm -o {}.so",
      fmt::join(flags_of(k), " "), name, name);
}

std::string shared_object(const ExportedKernel& k, const Conventions& with) {
  const std::string include = fmt::format("#include \"{}.h\"\n", export_name(*k.workload));
  std::string source = export_source(k);
  source.replace(source.find(include), include.size(), export_header(k));
  KernelSource whole = k.kernel;
  whole.code = source + additions(k, with);
  whole.flags = flags_of(k);
  return compile(whole).object;
}

}  // namespace tilewright::cli
