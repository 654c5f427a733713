// The functions of kernels for asynchronous matrix instructions with a sparse operand, on a device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/sparse_wgmma_rows.h"

namespace tilewright {

/// The rows whose functions a kernel's text names, each once.
std::vector<const SparseWgmmaRow*> sparse_wgmma_rows_of(std::string_view kernel);

/// The two functions of a row, of which what is kept of A lies in shared memory or in registers. Behind
/// wgmma_basics(). `e` are the lane's metadata.
///   tw_wgmma_<name><SELECTOR, A_ACROSS, B_ACROSS>(d, a, b, e, scale_d)
std::string sparse_wgmma_functions(const SparseWgmmaRow& row);

/// The head of one of them, which emulation shares, up to its parameters' end, and what their bodies
/// begin with: what the template's parameters have to be.
std::string sparse_wgmma_head(const SparseWgmmaRow& row, bool a_in_registers);
std::string sparse_wgmma_check(const SparseWgmmaRow& row, bool a_in_registers);

}  // namespace tilewright
