// tune-cli db merge --rebuild: kernels from elsewhere, made anew on this machine.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/command.h"

namespace tilewright::cli {

// Makes the kernels of this machine's own target, for each number of threads that records name.
nlohmann::ordered_json rebuild_kernels(const CommonOptions& options, database::Store& store);

}  // namespace tilewright::cli
