// Device functions of kernels for matrix instructions with a sparse operand.
#pragma once

#include <string>
#include <string_view>

#include "kernel/instructions/sparse_mma_rows.h"

namespace tilewright {

/// The text that defines TW_MMA_SP, the instruction's name. PTX has a newer name for metadata in
/// ascending order; without it the architectures after sm_80 run the instruction slowly.
std::string_view sparse_mma_name();

/// The text of the row's function, behind that of TW_MMA_SP:
///   tw_mma_<name><SELECTOR>(d, a, b, c, e)
std::string sparse_mma_function(const SparseMmaRow& row);

/// The head of the function, which emulation shares, up to the end of its parameters. A ")" and a
/// body follow, which checks the selector.
std::string sparse_mma_head(const SparseMmaRow& row);
/// The statement that fails to compile for a selector that the instruction does not have.
std::string sparse_mma_check(const SparseMmaRow& row);

}  // namespace tilewright
