// The time of a model file whose GPU is not here, as the GPU model expects it.
#pragma once

#include "cli/command.h"

namespace tilewright::cli {

// Prints predicted seconds by node and by cause at the largest sizes, and those of starting the kernels. Throws
// Error that names a node without a kernel for the file's target.
int explain_predicted(const CommonOptions& options);

}  // namespace tilewright::cli
