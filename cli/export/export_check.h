// The program that checks an exported kernel.
#pragma once

#include <string>

#include "cli/export/export_kernel.h"
#include "ir/oracle/evaluate.h"

namespace tilewright::cli {

/// C with a main: fills the operands from a formula, runs the kernel, compares some elements with
/// values that the f64 oracle gives for the same operands, and all elements with the untuned loops
/// (for large workloads only when called with the argument "full"). Prints "ok …" and returns 0, or
/// says which element is wrong and returns 1. Throws UsageError for an output of a type whose
/// elements the check cannot read.
std::string export_check(const ExportedKernel& k);

/// The same for a kernel that main calls in another way: `declarations` stand behind the includes,
/// `functions` before main, and `call` is an expression that computes the outputs from operands of their names on the host, and is 0 when it
/// has.
struct CheckedCall {
  std::string declarations, functions, call, build;
  NarrowSums narrow = {};  ///< what the kernel's sums may lose
};
std::string export_check(const ExportedKernel& k, const CheckedCall& checked);

}  // namespace tilewright::cli
