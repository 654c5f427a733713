#include "cli/roofline.h"

#include <algorithm>

#include "ir/visitor.h"
#include "runtime/machine.h"
#include "runtime/operands.h"

namespace tilewright::cli {
namespace {

const Machine& this_machine() {
  static const Machine machine = probe_machine();
  return machine;
}

// Whether elements of the operand are picked by other data, so that no more of them are needed than
// the result has.
bool is_picked(const Workload& workload, const std::string& operand) {
  bool found = false;
  auto by_data = [](const Expr& index) {
    bool loads = false;
    for_each_expr(index, [&](const Expr& e) { loads |= e.as<LoadNode>() != nullptr; });
    return loads;
  };
  for (const Stage& stage : workload.stages) {
    for_each_expr(stage.value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (!load || load->buffer->name != operand) return;
      found |= std::any_of(load->indices.begin(), load->indices.end(), by_data);
    });
  }
  return found;
}

}  // namespace

Roofline roofline_of(const Workload& workload, int threads) {
  std::map<std::string, int64_t> dims;
  for (const DimVar& d : workload.dims) dims[d.var.name()] = d.max;
  auto count = [](const OperandInfo& o) {
    int64_t elements = 1;
    for (int64_t extent : o.shape) elements *= extent;
    return elements;
  };
  std::vector<OperandInfo> operands = operands_of(workload, dims);
  double bytes = 0;
  for (const OperandInfo& o : operands) {
    int64_t elements = count(o);
    if (is_picked(workload, o.name)) elements = std::min(elements, count(operands.back()));
    bytes += static_cast<double>(bytes_for(o.elem, elements));
  }
  const Machine& machine = this_machine();
  double compute = machine.roofline_seconds(workload.flops, 0, threads);
  double memory = machine.roofline_seconds(0, bytes, threads);
  return {std::max(compute, memory), bytes,
          memory > compute ? machine.home_of(bytes, threads) : "compute"};
}

MachineRates machine_rates(int threads) { return this_machine().rates(threads); }

}  // namespace tilewright::cli
