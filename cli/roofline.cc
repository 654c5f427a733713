#include "cli/roofline.h"

#include "runtime/machine.h"
#include "runtime/operands.h"

namespace tilewright::cli {
namespace {

const Machine& this_machine() {
  static const Machine machine = probe_machine();
  return machine;
}

}  // namespace

Roofline roofline_of(const Workload& workload, int threads) {
  std::map<std::string, int64_t> dims;
  for (const DimVar& d : workload.dims) dims[d.var.name()] = d.max;
  double bytes = 0;
  for (const OperandInfo& o : operands_of(workload, dims)) {
    int64_t count = 1;
    for (int64_t extent : o.shape) count *= extent;
    bytes += static_cast<double>(bytes_for(o.elem, count));
  }
  const Machine& machine = this_machine();
  double compute = machine.roofline_seconds(workload.flops, 0, threads);
  double memory = machine.roofline_seconds(0, bytes, threads);
  return {std::max(compute, memory), bytes,
          memory > compute ? machine.home_of(bytes, threads) : "compute"};
}

MachineRates machine_rates(int threads) { return this_machine().rates(threads); }

}  // namespace tilewright::cli
