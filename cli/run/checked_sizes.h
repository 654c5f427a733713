// The knowledge of a kernel for ranges of sizes at sizes where it was not timed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "database/record.h"
#include "ir/tensor_expr.h"

namespace tilewright::cli {

// {"accesses", "proved", "checked": [{"m": 7}, …]}: the loads and stores of the kernel, those that are
// proved to stay within their buffers for all sizes, and where tuning compared its results and
// replaying does again; of a kernel that was `predicted` nothing was. The counts are null where an
// earlier version stored the kernel. Null without dynamic dimensions. Throws Error for a description
// that is none.
nlohmann::ordered_json checked_sizes(const Workload& workload, const database::Artifact& artifact,
                                     bool predicted);

// "bounds: 41 of 44 accesses proved for all sizes; checked at m = 1, 6, 7, 8 and 64".
std::string checked_text(const Workload& workload, const nlohmann::ordered_json& checked);

}  // namespace tilewright::cli
