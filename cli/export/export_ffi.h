// Parts that the calling conventions of shared objects share: the functions, their operands, and where
// dynamic sizes are read.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/export/export_kernel.h"

namespace tilewright::cli {

// A function of the object: the kernel, or one that packs a weight.
struct FfiFunction {
  std::string name;
  std::vector<const KernelParam*> params;  // the output stands last, wherever the kernel has it
  std::vector<bool> packed;                // whether a parameter is a packed weight: bytes
  bool dynamic = false;                    // whether it has the kernel's dynamic sizes
  // A C expression that is 0 when all is well, with the parameters in the array of this name.
  std::function<std::string(const std::string& array)> call;
};

/// The kernel and the functions that pack its weights.
std::vector<FfiFunction> ffi_functions(const ExportedKernel& k);

/// The C names of the function's dynamic sizes.
std::vector<std::string> c_dims(const FfiFunction& f, const ExportedKernel& k);

/// Lines that read the dynamic sizes off the operands and return an error for one out of its range.
/// `size` gives the C expression of an operand's size along an axis, `error` that of a message.
std::string read_dims(const FfiFunction& f, const ExportedKernel& k,
                      const std::function<std::string(size_t operand, size_t axis)>& size,
                      const std::function<std::string(const std::string& message)>& error);

/// C text that is the bytes of an operand, in names of dimensions.
std::string bytes_text(const KernelParam& p, const std::vector<std::string>& dims);

}  // namespace tilewright::cli
