// `tune-cli run` in a worker: a kernel on the caller's own operands.
#pragma once

#include <map>
#include <string>

#include "ir/tensor_expr.h"
#include "kernel/cuda_description.h"
#include "kernel/kernel_source.h"
#include "runtime/tensor/operands.h"

namespace tilewright::cli {

// The kernel that runs, and where.
struct RunJob {
  enum class On : uint8_t { Cpu, Gpu, Emulator } on = On::Cpu;
  std::string object = {};             // a shared object, or a cubin; empty for the emulator
  KernelDescription description = {};  // of a kernel for the CPU
  CudaDescription cuda = {};           // of the others, its source with its text
  std::string target = {};             // of the others
  std::map<std::string, int64_t> dims = {};
  int threads = 1;
};

struct RunResult {
  std::string fault;  // empty: the output is written
  // The work of warps, where it ran in the emulator: counters by name.
  std::map<std::string, int64_t> counters = {};
};

// Runs the kernel in a process of its own on these operands and fills the output. A crash there is a
// fault. Throws DeviceError or ToolchainError for want of what it takes.
RunResult run_in_worker(const Workload& workload, const RunJob& job, OperandSet& operands);

// The worker's side: a JobHandler.
std::string handle_run(const std::string& payload);

}  // namespace tilewright::cli
