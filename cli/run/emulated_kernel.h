// A kernel of a CUDA target that runs in the emulator, as a model takes it in the place of a GPU's.
#pragma once

#include <memory>

#include "database/record.h"
#include "serving/device_kernel.h"

namespace tilewright::cli {

// Its launches check every access and throw KernelError for the first fault. The artifact has its source. Throws
// KernelError or Error for what does not load here.
std::shared_ptr<const serving::DeviceKernel> load_emulated_kernel(
    const database::Artifact& artifact);

}  // namespace tilewright::cli
