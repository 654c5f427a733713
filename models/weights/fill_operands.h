// Weights out of files as operands of a workload.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/weights/layers.h"
#include "runtime/tensor/operands.h"

namespace tilewright::weights {

struct Filled {
  std::vector<std::string> names;  // the operands that have their values now
  // The order of an act-order layer's rows, in which the other factor's columns have to be taken,
  // too. Else empty.
  std::vector<int64_t> order;
};

// Fills the operand `name` from a layer. Where the workload has `name`.scale, it takes the packed
// numbers, and `name`.scale, `name`.zero and `name`.offset are filled along (0 where the layer has
// none); else it takes the dequantized values. A layer counts as [k, n], or as [n, k] when
// `transposed`. Throws FileError when it does not fit, with the keys of the spec that would take it.
Filled fill_operands(OperandSet* operands, const std::string& name, const TensorFile& file,
                     const Layer& layer, const LayerOptions& options, bool transposed);

// The same for arrays that `find` knows by their operands' names; it gives null where there is none.
using FindArray = std::function<HostArray*(const std::string& operand)>;
Filled fill_operands(const FindArray& find, const std::string& name, const TensorFile& file,
                     const Layer& layer, const LayerOptions& options, bool transposed);

// Takes the columns of the matrix in this order: column j of the result is column order[j].
// Requires an order of as many columns.
void take_columns(HostArray* matrix, const std::vector<int64_t>& order);

}  // namespace tilewright::weights
