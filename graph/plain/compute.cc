#include "graph/plain/compute.h"

#include <algorithm>
#include <utility>

#include "graph/graph.h"
#include "runtime/tensor/element.h"
#include "runtime/tensor/operands.h"

namespace tilewright::graph {
namespace {

std::map<std::string, ElementReader> readers_of(
    const std::map<std::string, ComputeOperand>& operands) {
  std::map<std::string, ElementReader> readers;
  for (const auto& [name, operand] : operands) {
    readers[name] = [operand = operand](int64_t i) {
      return load_element(operand.elem, operand.data, i);
    };
  }
  return readers;
}

}  // namespace

void compute_each(Workload workload, const std::map<std::string, int64_t>& dims,
                  const std::map<std::string, ComputeOperand>& operands, char* output) {
  for (DimVar& dim : workload.dims) dim.min = 0;
  Oracle oracle(workload, readers_of(operands), dims);
  const int64_t count = element_count(operands_of(workload, dims).back().shape).value();
  for (int64_t i = 0; i < count; ++i) {
    store_element(workload.output()->elem, output, i, oracle.at(i).value);
  }
}

void compute(Workload workload, const std::map<std::string, int64_t>& dims,
             const std::map<std::string, ComputeOperand>& operands, char* output,
             const Oracle::ParallelFn& parallel) {
  // The oracle's vectors run along indices of one element or more.
  const bool empty = std::ranges::any_of(dims, [](const auto& dim) { return dim.second == 0; });
  if (empty) return compute_each(std::move(workload), dims, operands, output);
  Oracle oracle(workload, readers_of(operands), dims);
  for (const auto& [name, operand] : operands) {
    oracle.read_blocks(name, [operand = operand](int64_t first, std::span<double> out) {
      load_elements(operand.elem, operand.data, first, out);
    });
  }
  const ElemType elem = workload.output()->elem;
  oracle.for_all(
      [&](int64_t first, std::span<const Oracle::Value> got) {
        for (size_t i = 0; i < got.size(); ++i) {
          store_element(elem, output, first + static_cast<int64_t>(i), got[i].value);
        }
      },
      parallel);
}

}  // namespace tilewright::graph
