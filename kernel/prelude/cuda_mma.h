// Device functions of kernels for matrix instructions of a warp.
#pragma once

#include <string>
#include <string_view>

#include "kernel/instructions/mma_rows.h"

namespace tilewright {

/// The text that defines TW_MMA_SP, the name of instructions with a sparse A. PTX has a newer name
/// for metadata in ascending order; without it the architectures after sm_80 run the instruction
/// slowly.
std::string_view sparse_mma_name();

/// The text of the row's function; of a sparse row behind that of TW_MMA_SP, with metadata `e`:
///   tw_mma_<name>(d, a, b, c)
///   tw_mma_<name><SELECTOR>(d, a, b, c, e)
std::string mma_function(const Instruction& row);

/// The head of the function, which emulation shares, up to the end of its parameters. A ")" and a
/// body follow.
std::string mma_head(const Instruction& row);
/// The statement that fails to compile for a selector that a sparse row does not have.
std::string selector_check(const Instruction& row);

}  // namespace tilewright
