// Exported kernels as shared objects: for programs that look functions up by name, and for those that
// speak tvm-ffi's calling convention or XLA's.
#pragma once

#include <string>

#include "cli/export/export_kernel.h"

namespace tilewright::cli {

/// Calling conventions whose functions an object has besides its own.
struct Conventions {
  bool tvm_ffi = false, jax_ffi = false;
};

/// The source of the shared object, NAME_shared.c: it includes NAME.c.
std::string shared_source(const ExportedKernel& k, const Conventions& with);

/// "cc -O3 -shared -fPIC … NAME_shared.c -lm -o NAME.so".
std::string shared_build_line(const ExportedKernel& k);

/// The bytes of NAME.so, by the compiler that kernels are compiled with. Throws ToolchainError and
/// CompileError.
std::string shared_object(const ExportedKernel& k, const Conventions& with);

/// The functions __tvm_ffi_NAME and __tvm_ffi_NAME_pack_B, for a source that has NAME.c and
/// tw_run_NAME().
std::string tvm_ffi_functions(const ExportedKernel& k);

/// The handlers NAME_jax and NAME_pack_B_jax of XLA's foreign functions, for such a source.
std::string jax_ffi_functions(const ExportedKernel& k);

}  // namespace tilewright::cli
