#include "cli/export/export_gpu.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "cli/export/export_check.h"
#include "kernel/instructions/tensor_sums.h"
#include "kernel/prelude/cuda_prelude.h"
#include "runtime/tensor/operands.h"

namespace tilewright::cli {
namespace {

constexpr int64_t kPlainSharedBytes = 48 << 10;  // more has to be asked for
constexpr int64_t kAlignment = 256;              // of arrays in scratch memory

// A size of a launch as C over the dimensions' names.
std::string c_size(const Expr& e) {
  if (auto number = as_int(e)) return std::to_string(*number);
  if (auto* v = e.as<VarNode>()) return c_name(v->name);
  auto* b = e.as<BinaryNode>();
  TW_ASSERT(b, "the size of a launch is no expression of dimensions");
  static const std::map<BinaryOp, const char*> functions = {{BinaryOp::FloorDiv, "tw_floordiv"},
                                                            {BinaryOp::FloorMod, "tw_floormod"},
                                                            {BinaryOp::Min, "tw_min"},
                                                            {BinaryOp::Max, "tw_max"}};
  if (auto f = functions.find(b->op); f != functions.end()) {
    return fmt::format("{}({}, {})", f->second, c_size(b->a), c_size(b->b));
  }
  const char* op = b->op == BinaryOp::Add ? "+" : b->op == BinaryOp::Sub ? "-" : "*";
  TW_ASSERT(b->op == BinaryOp::Add || b->op == BinaryOp::Sub || b->op == BinaryOp::Mul,
            "an operator that sizes of launches do not have");
  return fmt::format("({} {} {})", c_size(b->a), op, c_size(b->b));
}

constexpr const char* kSizeFunctions = R"(
static int64_t tw_floordiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
static int64_t tw_floormod(int64_t a, int64_t b) { return a - b * tw_floordiv(a, b); }
static int64_t tw_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t tw_max(int64_t a, int64_t b) { return a > b ? a : b; }
)";

// "int64_t m, int64_t n", each with `before` in front of it.
std::string dim_parameters(const CudaSource& s) {
  std::vector<std::string> list;
  for (const DimVar& d : s.dims) list.push_back("int64_t " + c_name(d.var.name()));
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string scratch_signature(const ExportedGpuKernel& k) {
  std::string dims = dim_parameters(k.gpu.description.source);
  return fmt::format("size_t {}_scratch_bytes({})", export_name(*k.workload),
                     dims.empty() ? "void" : dims);
}

std::string launch_signature(const ExportedGpuKernel& k) {
  const CudaSource& s = k.gpu.description.source;
  std::string name = export_name(*k.workload);
  std::string out = fmt::format("CUresult {0}(const {0}_kernels* kernels, CUstream stream", name);
  for (const KernelParam& p : s.params) out += ", CUdeviceptr " + c_name(p.name);
  out += ", CUdeviceptr scratch";
  for (const DimVar& d : s.dims) out += ", int64_t " + c_name(d.var.name());
  return out + ")";
}

std::string header(const ExportedGpuKernel& k) {
  const CudaSource& s = k.gpu.description.source;
  const ExportedKernel host = k.host();
  std::string name = export_name(*k.workload), operands;
  for (const KernelParam& p : s.params) {
    operands += fmt::format(" *   {:<12} {} {}{}\n", c_name(p.name), to_string(p.elem),
                            shape_text(p, host.kernel.description.dims),
                            p.role == ParamRole::Output ? ", written" : "");
  }
  std::string out = header_comment(host, "needs the CUDA driver alone", gpu_build_line(k));
  out += fmt::format(
      "#ifndef {0}_H_\n#define {0}_H_\n\n#include <cuda.h>\n#include <stddef.h>\n"
      "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      macro_name(name));
  out += packing_declarations(host);
  out += fmt::format(
      "/* The kernels in a context. */\ntypedef struct {0}_kernels {{\n  CUmodule module;\n"
      "  CUfunction function[{1}];\n}} {0}_kernels;\n\n"
      "/* Loads the machine code, which is for {2}, into the current context; on a failure nothing "
      "is\n * loaded. */\nCUresult {0}_load({0}_kernels* kernels);\n"
      "CUresult {0}_unload({0}_kernels* kernels);\n\n"
      "/* Bytes of memory of the device that a call needs besides its operands; they need no "
      "initial\n * value. */\n{3};\n\n",
      name, s.launches.size(), s.target, scratch_signature(k));
  out += fmt::format(
      "/* Starts the operator on row-major arrays in the device's memory, each aligned to {} "
      "bytes, "
      "and\n * returns at once:\n{} * Allocates nothing, and may be captured in a graph. Calls at "
      "one "
      "time need scratch memory of\n * their own. */\n{};\n\n"
      "#ifdef __cplusplus\n}}\n#endif\n#endif\n",
      kAlignment, operands, launch_signature(k));
  return out;
}

std::string machine_code(const std::string& cubin) {
  std::string out =
      fmt::format("static const unsigned char machine_code[{}] __attribute__((aligned(64))) = {{",
                  cubin.size());
  for (size_t i = 0; i < cubin.size(); ++i) {
    out += fmt::format("{}{},", i % 24 == 0 ? "\n    " : "", static_cast<unsigned char>(cubin[i]));
  }
  return out + "\n};\n";
}

std::string load_functions(const ExportedGpuKernel& k) {
  const CudaSource& s = k.gpu.description.source;
  std::string name = export_name(*k.workload), find;
  for (size_t i = 0; i < s.launches.size(); ++i) {
    const CudaLaunch& l = s.launches[i];
    find += fmt::format(
        "  if (status == CUDA_SUCCESS) {{\n"
        "    status = cuModuleGetFunction(&kernels->function[{0}], kernels->module, \"{1}\");\n"
        "  }}\n",
        i, l.entry);
    if (l.shared_bytes <= kPlainSharedBytes) continue;
    find += fmt::format(
        "  if (status == CUDA_SUCCESS) {{\n    status = cuFuncSetAttribute(kernels->function[{}],\n"
        "        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, {});\n  }}\n",
        i, l.shared_bytes);
  }
  return fmt::format(
      "\nCUresult {0}_load({0}_kernels* kernels) {{\n"
      "  CUresult status = cuModuleLoadData(&kernels->module, machine_code);\n"
      "  if (status != CUDA_SUCCESS) return status;\n{1}"
      "  if (status != CUDA_SUCCESS) cuModuleUnload(kernels->module);\n  return status;\n}}\n"
      "\nCUresult {0}_unload({0}_kernels* kernels) {{ return cuModuleUnload(kernels->module); }}\n",
      name, find);
}

// Bytes of a scratch array, up to where the next one may begin.
std::string scratch_bytes(const CudaScratch& s) {
  return fmt::format("tw_floordiv(tw_floordiv({} * {} + 7, 8) + {}, {}) * {}", c_size(s.elements),
                     bits_of(s.elem), kAlignment - 1, kAlignment, kAlignment);
}

std::string unused(const CudaSource& s, bool all) {
  std::string out = all && s.scratch.empty() ? "  (void)scratch;\n" : "";
  for (const DimVar& d : s.dims) out += "  (void)" + c_name(d.var.name()) + ";\n";
  return out;
}

// A type of elements as the driver's header names it; copies do not look at others than these.
std::string data_type(ElemType elem) {
  static const std::map<ElemType, const char*> names = {
      {ElemType::f16, "FLOAT16"}, {ElemType::bf16, "BFLOAT16"}, {ElemType::f32, "FLOAT32"},
      {ElemType::f64, "FLOAT64"}, {ElemType::i32, "INT32"},     {ElemType::i64, "INT64"}};
  auto name = names.find(elem);
  return "CU_TENSOR_MAP_DATA_TYPE_" + (name != names.end()
                                           ? std::string(name->second)
                                           : fmt::format("UINT{}", std::max(bits_of(elem), 8)));
}

// Makes the tensor map `name` of an operand, as the launch's arguments want it.
std::string encode_tensor_map(const TensorMap& map, const std::string& name,
                              const std::string& buffer) {
  std::vector<std::string> dims, strides;
  for (const Expr& extent : map.dims)
    dims.push_back(fmt::format("(cuuint64_t)({})", c_size(extent)));
  for (const Expr& stride : map.strides) {
    strides.push_back(fmt::format("(cuuint64_t)({})", c_size(stride)));
  }
  if (strides.empty()) strides.emplace_back("0");  // an array has an element
  std::vector<int64_t> steps(map.dims.size(), 1);
  const int64_t span = span_of(map.swizzle);
  std::string call = "Tiled",
              box = fmt::format("    cuuint32_t box[] = {{{}}};\n", fmt::join(map.box, ", ")),
              moved = "box";
  if (map.pixels) {
    const size_t rank = map.dims.size() - 2;
    auto own = [&](const std::array<int64_t, kMaxPixelRank>& all) {
      return fmt::format("{}", fmt::join(all.begin(), all.begin() + static_cast<long>(rank), ", "));
    };
    std::copy_n(map.pixels->steps.begin(), rank, steps.begin() + 1);
    call = "Im2col";
    box = fmt::format("    int lower[] = {{{}}}, upper[] = {{{}}};\n", own(map.pixels->lower),
                      own(map.pixels->upper));
    moved = fmt::format("lower, upper, {}, {}", map.box[0], map.box[1]);
  }
  return fmt::format(
      "  CUtensorMap {0};\n  if (status == CUDA_SUCCESS) {{\n"
      "    cuuint64_t dims[] = {{{1}}}, strides[] = {{{2}}};\n"
      "{3}    cuuint32_t steps[] = {{{4}}};\n"
      "    status = cuTensorMapEncode{9}(\n"
      "        &{0}, {5}, {6}, (void*)(uintptr_t){7}, dims, strides, {10}, steps,\n"
      "        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_{8},\n"
      "        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n  }}\n",
      name, fmt::join(dims, ", "), fmt::join(strides, ", "), box, fmt::join(steps, ", "),
      data_type(map.elem), map.dims.size(), buffer, span == 0 ? "NONE" : fmt::format("{}B", span),
      call, moved);
}

// The launch of a kernel that may start before the one ahead of it has ended: it waits for that
// itself.
constexpr const char* kLaunchBehind = R"(
static CUresult launch_behind(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                              unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, CUstream stream, void** arguments) {
#if CUDA_VERSION >= 12030
  CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  CUlaunchConfig config = {grid_x, grid_y, grid_z, block_x, block_y,
                           block_z, shared_bytes, stream, &overlap, 1};
  overlap.value.programmaticStreamSerializationAllowed = 1;
  return cuLaunchKernelEx(&config, kernel, arguments, 0);
#else
  return cuLaunchKernel(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                        stream, arguments, 0);
#endif
}
)";

std::string launch_function(const ExportedGpuKernel& k) {
  const CudaSource& s = k.gpu.description.source;
  std::vector<std::string> buffers;
  for (const KernelParam& p : s.params) buffers.push_back(c_name(p.name));
  std::string out;
  if (std::any_of(s.launches.begin(), s.launches.end(), [](auto& l) { return l.dependent; })) {
    out += kLaunchBehind;
  }
  out += fmt::format("\n{} {{\n{}", launch_signature(k), unused(s, true));
  std::string at = "scratch";
  for (size_t i = 0; i < s.scratch.size(); ++i) {
    out += fmt::format("  CUdeviceptr scratch_{} = {};\n", i, at);
    buffers.push_back(fmt::format("scratch_{}", i));
    at = fmt::format("scratch_{} + (CUdeviceptr)({})", i, scratch_bytes(s.scratch[i]));
  }
  out += "  CUresult status = CUDA_SUCCESS;\n";
  for (size_t i = 0; i < s.launches.size(); ++i) {
    const CudaLaunch& l = s.launches[i];
    std::vector<std::string> arguments;
    for (int b : l.buffers) arguments.push_back("&" + buffers[static_cast<size_t>(b)]);
    for (size_t m = 0; m < l.tensor_maps.size(); ++m) {
      const TensorMap& map = l.tensor_maps[m];
      const std::string name = fmt::format("tensor_map_{}_{}", i, m);
      out += encode_tensor_map(map, name, buffers[static_cast<size_t>(map.buffer)]);
      arguments.push_back("&" + name);
    }
    for (const DimVar& d : s.dims) arguments.push_back("&" + c_name(d.var.name()));
    const std::string shape = fmt::format(
        "(unsigned)({}), (unsigned)({}),\n                            (unsigned)({}), {}, {}, {}, "
        "{}, stream",
        c_size(l.grid[0]), c_size(l.grid[1]), c_size(l.grid[2]), l.block[0], l.block[1], l.block[2],
        l.shared_bytes);
    out += fmt::format(
        "  if (status == CUDA_SUCCESS) {{\n    void* arguments[] = {{{}}};\n"
        "    status = {}(kernels->function[{}], {}, arguments{});\n  }}\n",
        fmt::join(arguments, ", "), l.dependent ? "launch_behind" : "cuLaunchKernel", i, shape,
        l.dependent ? "" : ", 0");
  }
  return out + "  return status;\n}\n";
}

std::string source(const ExportedGpuKernel& k) {
  const CudaSource& s = k.gpu.description.source;
  std::string out = fmt::format("/* See {0}.h. */\n#include \"{0}.h\"\n\n#include <stdlib.h>\n\n",
                                export_name(*k.workload));
  out += "#pragma GCC diagnostic ignored \"-Wunused-function\"\n\n";
  if (!s.packing.code.empty()) out += context_declaration() + packing_definitions(k.host());
  out += machine_code(k.gpu.cubin) + kSizeFunctions + load_functions(k);
  std::string total = "0";
  for (const CudaScratch& scratch : s.scratch) total += " + " + scratch_bytes(scratch);
  out += fmt::format("\n{} {{\n{}  return (size_t)({});\n}}\n", scratch_signature(k),
                     unused(s, false), total);
  return out + launch_function(k);
}

// How many bytes the check hands over of each operand and packed weight, as C.
std::map<std::string, std::string> operand_bytes(const ExportedGpuKernel& k) {
  std::map<std::string, std::string> sizes;
  for (const OperandInfo& o : operands_of(*k.workload, largest_sizes(*k.workload))) {
    int64_t count = 1;
    for (int64_t extent : o.shape) count *= extent;
    sizes[o.name] = std::to_string(bytes_for(o.elem, count));
  }
  const ExportedKernel host = k.host();
  for (const KernelFunction& pack : host.kernel.description.packs) {
    sizes[pack.params.back().name] = packed_bytes_macro(host, pack);
  }
  return sizes;
}

constexpr const char* kTry = R"(
#define TRY(call)                                \
  do {                                           \
    CUresult status_ = call;                     \
    if (status_ != CUDA_SUCCESS) {               \
      const char* text_ = "";                    \
      cuGetErrorString(status_, &text_);         \
      printf("%s: %s\n", #call, text_);          \
      return 1;                                  \
    }                                            \
  } while (0)
)";

// The function that the check calls: operands on the host go to the device, and the output comes
// back.
CheckedCall checked_call(const ExportedGpuKernel& k) {
  std::map<std::string, std::string> sizes = operand_bytes(k);
  std::string name = export_name(*k.workload), up, down, free;
  std::vector<std::string> parameters, arguments, device, dims;
  for (int64_t extent : check_dims(*k.workload)) dims.push_back(std::to_string(extent));
  for (const KernelParam& p : k.gpu.description.source.params) {
    const std::string c = c_name(p.name), size = sizes.at(p.name);
    parameters.push_back("void* " + c);
    arguments.push_back(c);
    device.push_back("on_device_" + c);
    up += fmt::format(
        "  CUdeviceptr on_device_{0};\n  TRY(cuMemAlloc(&on_device_{0}, {1}));\n"
        "  TRY(cuMemcpyHtoD(on_device_{0}, {0}, {1}));\n",
        c, size);
    if (p.role == ParamRole::Output) {
      down += fmt::format("  TRY(cuMemcpyDtoH({0}, on_device_{0}, {1}));\n", c, size);
    }
    free += fmt::format("  TRY(cuMemFree(on_device_{}));\n", c);
  }
  device.emplace_back("scratch");
  device.insert(device.end(), dims.begin(), dims.end());
  CheckedCall checked;
  checked.narrow =
      narrow_sums(Target::parse(k.gpu.description.source.target).gpu.compute_capability);
  checked.declarations = context_declaration() + "\n";
  checked.functions = kTry;
  checked.functions += fmt::format(
      "\nstatic int run_on_device({0}) {{\n  CUdevice device;\n  CUcontext context;\n"
      "  {1}_kernels kernels;\n  CUdeviceptr scratch;\n"
      "  TRY(cuInit(0));\n  TRY(cuDeviceGet(&device, 0));\n"
      "  TRY(cuDevicePrimaryCtxRetain(&context, device));\n  TRY(cuCtxSetCurrent(context));\n"
      "  TRY({1}_load(&kernels));\n"
      "  TRY(cuMemAlloc(&scratch, {1}_scratch_bytes({2}) + 1));\n{3}"
      "  TRY({1}(&kernels, 0, {4}));\n  TRY(cuCtxSynchronize());\n{5}{6}"
      "  TRY(cuMemFree(scratch));\n  TRY({1}_unload(&kernels));\n"
      "  return cuDevicePrimaryCtxRelease(device) != CUDA_SUCCESS;\n}}\n",
      fmt::join(parameters, ", "), name, fmt::join(dims, ", "), up, fmt::join(device, ", "), down,
      free);
  checked.call = fmt::format("run_on_device({})", fmt::join(arguments, ", "));
  checked.build = gpu_build_line(k);
  return checked;
}

}  // namespace

ExportedKernel ExportedGpuKernel::host() const {
  const CudaSource& source = gpu.description.source;
  ExportedKernel host;
  host.workload = workload;
  host.kernel = source.packing;
  host.kernel.description.main.params = source.params;
  for (const DimVar& d : source.dims) host.kernel.description.dims.push_back(d.var.name());
  host.reference = reference;
  host.origin = gpu.origin;
  return host;
}

std::string gpu_build_line(const ExportedGpuKernel& k) {
  return fmt::format(
      "cc -O2 -I${{CUDA_HOME:-/usr/local/cuda}}/include {0}.c {0}_check.c -lcuda -lm "
      "-o {0}_check",
      export_name(*k.workload));
}

std::vector<std::pair<std::string, std::string>> export_gpu_files(const ExportedGpuKernel& k) {
  std::string name = export_name(*k.workload);
  return {{name + ".h", header(k)},
          {name + ".c", source(k)},
          {name + ".cu", cuda_translation_unit(k.gpu.description.source.text, name + ".cu")},
          {name + ".cubin", k.gpu.cubin},
          {name + "_check.c", export_check(k.host(), checked_call(k))}};
}

}  // namespace tilewright::cli
