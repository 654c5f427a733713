#include "cli/run/run_gpu.h"

#include <fmt/format.h>

#include "base/knobs.h"
#include "cli/run/run_check.h"
#include "emulator/emulate_program.h"
#include "runtime/cuda/device_operands.h"
#include "runtime/error.h"
#include "runtime/machine/cpus.h"

namespace tilewright::cli {
GpuRunReport run_on_gpu(const Workload& w, GpuKernel& k, const Target& target, OperandSet& operands,
                        const std::map<std::string, int64_t>& dims) {
  compile_kernel(k, target);
  cuda::Device device(0, knob_text(Knob::CudaDriver));
  try {
    cuda::DeviceOperands on_device(device, operands);
    ThreadPool pool(available_cores());
    on_device.pack(k.description, pool);
    std::vector<int64_t> values = dim_values(w, dims);
    cuda::DeviceProgram program(device, k.cubin, k.description,
                                on_device.addresses(k.description.source, values), values);
    on_device.run_once(program, HostArray::Poison::First);
    if (!on_device.wrote_beside()) return {unwritten_element(operands.output()), {}};
  } catch (const DeviceError& e) {  // there is a device: this is the kernel's doing
    return {e.what(), {}};
  }
  return {fmt::format("the kernel writes beside its output '{}'", operands.output().name()), {}};
}

GpuRunReport run_in_emulator(const Workload& w, const GpuKernel& k, OperandSet& operands,
                             const std::map<std::string, int64_t>& dims) {
  operands.output().poison(HostArray::Poison::First);
  EmulatorResult result = emulate_program(k.description, operands, dim_values(w, dims));
  GpuRunReport report{{}, result.counters.by_name()};
  report.fault = result.ok() ? unwritten_element(operands.output()) : result.fault->to_string();
  return report;
}

}  // namespace tilewright::cli
