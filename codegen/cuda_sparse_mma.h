// The functions of kernels for matrix instructions with a sparse operand, on a device.
#pragma once

#include <string>
#include <string_view>

#include "codegen/sparse_mma_rows.h"

namespace tilewright {

/// The text that defines TW_MMA_SP, the instruction's name: PTX has a newer one for metadata in
/// ascending order, without which the architectures after sm_80 run it slowly.
std::string_view sparse_mma_name();

/// The text of the row's function, behind that of TW_MMA_SP:
///   tw_mma_<name><SELECTOR>(d, a, b, c, e)
std::string sparse_mma_function(const SparseMmaRow& row);

/// The head of the function, which emulation shares, up to its parameters' end: what follows is ")"
/// and a body. It checks the selector there.
std::string sparse_mma_head(const SparseMmaRow& row);
/// The statement that lets a selector that the instruction does not have not compile.
std::string sparse_mma_check(const SparseMmaRow& row);

}  // namespace tilewright
