// Device functions of kernels for asynchronous matrix instructions of warpgroups (wgmma).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernel/instructions/wgmma_rows.h"

namespace tilewright {

/// The text that all rows need: tw_operand, tw_wgmma_operand, and the functions that order
/// registers and memory. It requires tw_shared_address.
std::string_view wgmma_basics();

/// The names behind "tw_wgmma_" in a kernel's text, each once, in order.
std::vector<std::string_view> wgmma_names_in(std::string_view kernel);
/// The rows whose functions a kernel's text names, each once.
std::vector<const WgmmaRow*> wgmma_rows_of(std::string_view kernel);

/// The two functions of a row: A lies in shared memory or in registers. They stand behind
/// wgmma_basics().
///   tw_wgmma_<name><A_ACROSS, B_ACROSS>(d, a, b, scale_d)
std::string wgmma_functions(const WgmmaRow& row);

/// The head of one of them, which emulation shares, up to the end of its parameters. A ")" and a
/// body follow.
std::string wgmma_head(const WgmmaRow& row, bool a_in_registers);
/// The type of a lane's accumulators: "float", "int", or "unsigned" for pairs of f16.
std::string_view wgmma_sum_type(const WgmmaRow& row);

}  // namespace tilewright
