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
std::vector<const Instruction*> wgmma_rows_of(std::string_view kernel);

/// The two functions of a row: A, or its kept elements, lies in shared memory or in registers. They
/// stand behind wgmma_basics(). `e` is the lane's sparse metadata.
///   tw_wgmma_<name><A_ACROSS, B_ACROSS>(d, a, b, scale_d)
///   tw_wgmma_<name><SELECTOR, A_ACROSS, B_ACROSS>(d, a, b, e, scale_d)
std::string wgmma_functions(const Instruction& row);

/// The head of one of them, which emulation shares, up to the end of its parameters. Then the start
/// of their bodies: the requirements on the template's parameters.
std::string wgmma_head(const Instruction& row, bool a_in_registers);
std::string wgmma_check(const Instruction& row, bool a_in_registers);
/// The type of a lane's accumulators: "float", "int", or "unsigned" for pairs of f16.
std::string_view wgmma_sum_type(const Instruction& row);

}  // namespace tilewright
