// The rows of the table of intrinsics, one function per architecture.
#pragma once

#include <vector>

#include "codegen/intrinsics/intrinsics.h"

namespace tilewright {

std::vector<Intrinsic> x86_rows();
std::vector<Intrinsic> amx_rows();
std::vector<Intrinsic> aarch64_rows();

}  // namespace tilewright
