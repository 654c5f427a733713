#include "graph/plain/compute.h"

#include <algorithm>

#include "runtime/tensor/element.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

int64_t count_at(const Workload& workload, const std::map<std::string, int64_t>& dims) {
  const std::vector<OperandInfo> operands = operands_of(workload, dims);
  int64_t count = 1;
  for (int64_t size : operands.back().shape) count *= size;
  return count;
}

}  // namespace

void compute(Workload workload, const std::map<std::string, int64_t>& dims,
             const std::map<std::string, ComputeOperand>& operands, char* output,
             const Oracle::ParallelFn& parallel) {
  for (DimVar& dim : workload.dims) dim.min = 0;
  std::map<std::string, ElementReader> readers;
  for (const auto& [name, operand] : operands) {
    readers[name] = [operand = operand](int64_t i) {
      return load_element(operand.elem, operand.data, i);
    };
  }
  Oracle oracle(workload, readers, dims);
  for (const auto& [name, operand] : operands) {
    oracle.read_blocks(name, [operand = operand](int64_t first, std::span<double> out) {
      load_elements(operand.elem, operand.data, first, out);
    });
  }
  const ElemType elem = workload.output()->elem;
  const bool empty = std::ranges::any_of(dims, [](const auto& dim) { return dim.second == 0; });
  if (empty) {  // for_all() runs along indices of one element or more
    for (int64_t i = 0; i < count_at(workload, dims); ++i) {
      store_element(elem, output, i, oracle.at(i).value);
    }
    return;
  }
  oracle.for_all(
      [&](int64_t first, std::span<const Oracle::Value> got) {
        for (size_t i = 0; i < got.size(); ++i) {
          store_element(elem, output, first + static_cast<int64_t>(i), got[i].value);
        }
      },
      parallel);
}

}  // namespace tilewright::graph
