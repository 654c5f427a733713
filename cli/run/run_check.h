// Whether a kernel computed the right values of the caller's own data.
#pragma once

#include <map>
#include <string>

#include "ir/tensor_expr.h"
#include "runtime/tensor/operands.h"

namespace tilewright::cli {

struct OutputCheck {
  std::string fault;     // the first wrong element; empty when all that were compared are right
  int64_t compared = 0;  // elements by themselves
  bool by_sums = false;  // all others by sums of them
};

// Compares elements of the output, all of them where that is cheap, with the values that the workload
// has in f64, within the bound that is derived from its expression; else elements from everywhere,
// and sums of all of them where those are cheap (Oracle::Sums). Takes about twice `seconds` at most.
// Elements that are not finite, or that have no finite bound, are passed over: what a kernel makes of
// an overflow is its own.
OutputCheck check_output(const Workload& workload, OperandSet& operands,
                         const std::map<std::string, int64_t>& dims, double seconds);

// The first element of a poisoned output that kept its poison, which no right kernel leaves, as
// "C[0, 3] was not written", or empty.
std::string unwritten_element(const HostArray& output);

}  // namespace tilewright::cli
