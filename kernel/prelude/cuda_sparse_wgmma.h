// Device functions of kernels for asynchronous matrix instructions (wgmma) with a sparse operand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel/instructions/sparse_wgmma_rows.h"

namespace tilewright {

/// The rows whose functions a kernel's text names, each once.
std::vector<const SparseWgmmaRow*> sparse_wgmma_rows_of(std::string_view kernel);

/// The two functions of a row: A's kept elements lie in shared memory or in registers. They stand
/// behind wgmma_basics(). `e` is the lane's sparse metadata.
///   tw_wgmma_<name><SELECTOR, A_ACROSS, B_ACROSS>(d, a, b, e, scale_d)
std::string sparse_wgmma_functions(const SparseWgmmaRow& row);

/// The head of one of them, which emulation shares, up to the end of its parameters. Then the start
/// of their bodies: the requirements on the template's parameters.
std::string sparse_wgmma_head(const SparseWgmmaRow& row, bool a_in_registers);
std::string sparse_wgmma_check(const SparseWgmmaRow& row, bool a_in_registers);

}  // namespace tilewright
