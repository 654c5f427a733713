// Kernels for GPUs as C over the CUDA driver's interface: machine code, launches, packing.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/export/export_kernel.h"
#include "cli/gpu_kernel.h"

namespace tilewright::cli {

/// A workload's kernel with all that its files say of it.
struct ExportedGpuKernel {
  const Workload* workload = nullptr;
  GpuKernel gpu;           // compiled
  KernelSource reference;  // the untuned default for any CPU

  /// The functions that pack its weights, and its parameters, as those of a CPU kernel.
  ExportedKernel host() const;
};

/// "cc -O2 … NAME.c NAME_check.c -lcuda -lm -o NAME_check".
std::string gpu_build_line(const ExportedGpuKernel& k);

/// File names and contents: NAME.h and NAME.c with the machine code in it, NAME_check.c, and for other
/// ways to load it NAME.cubin and NAME.cu, the text that it was compiled from.
std::vector<std::pair<std::string, std::string>> export_gpu_files(const ExportedGpuKernel& k);

}  // namespace tilewright::cli
