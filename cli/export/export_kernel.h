// Kernels as C that stands alone: a header, a source file, and a program that checks them.
#pragma once

#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "kernel/kernel_source.h"

namespace tilewright::cli {

struct ExportedKernel {
  const Workload* workload = nullptr;
  KernelSource kernel;
  KernelSource reference;  // the untuned default for any machine, without packing functions
  std::string origin;      // where the kernel comes from, a few words for the header
  int threads = 1;         // that it was tuned for
};

/// "matmul_0baf8292": a C identifier from the workload's label (or operator) and its hash. Files,
/// functions and macros are named after it.
std::string export_name(const Workload& workload);

/// A parameter's name in C: what is no letter becomes '_', and keywords get one behind.
std::string c_name(const std::string& name);

/// The generated text without its own declarations of types, and with all functions static.
std::string embedded_code(const KernelSource& source);

/// "cc -O3 -mavx512f … NAME.c NAME_check.c -lm -o NAME_check".
std::string build_line(const ExportedKernel& k);

/// Text that may stand in a C comment.
std::string in_comment(std::string text);

/// The function that packs a weight, the arguments that it is called with, and the macro that says how
/// many bytes it writes: "matmul_0baf8292_pack_B", "B, B_packed", "MATMUL_0BAF8292_B_PACKED_BYTES".
/// Where several make something of one weight, they are named after what they make.
std::string pack_name(const ExportedKernel& k, const KernelFunction& pack);
std::string pack_arguments(const KernelFunction& pack);
std::string packed_bytes_macro(const ExportedKernel& k, const KernelFunction& pack);

/// How many bytes the function writes.
int64_t packed_bytes(const ExportedKernel& k, const KernelFunction& pack);

/// The sizes that dynamic dimensions have in the check: their largest.
std::vector<int64_t> check_dims(const Workload& workload);

/// The first lines of an exported kernel's header, up to its includes: its computation, its origin,
/// its needs ("needs nothing else"), and how it is built.
std::string header_comment(const ExportedKernel& k, const std::string& needs,
                           const std::string& build);
/// The declarations of tw_context, once a translation unit.
std::string context_declaration();
/// The definition of serial_for, the parallel_for of a context of one thread.
std::string serial_loop();
/// The functions that pack weights and the macros with their sizes, and in the source file their
/// definitions behind the generated code.
std::string packing_declarations(const ExportedKernel& k);
std::string packing_definitions(const ExportedKernel& k);
/// "[m, 4096]": the extents, with the names of dynamic dimensions.
std::string shape_text(const KernelParam& param, const std::vector<std::string>& dims);
/// In capitals.
std::string macro_name(const std::string& text);

/// Arguments of the exported function in order: "A", "B_packed", …, then the dynamic dimensions.
std::string export_header(const ExportedKernel& k);
std::string export_source(const ExportedKernel& k);

}  // namespace tilewright::cli
