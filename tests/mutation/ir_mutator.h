// Faults in scheduled programs before lowering, as a wrong rewrite could leave them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright::mutation {

// "ir loop one short", …: a fault may be made in the main program and in pack programs.
const std::vector<std::string>& ir_kinds();

// The module with one fault of that kind at a place that the seed chooses. Nothing where the module
// has no such place, or the fault cannot be made there.
std::optional<Module> mutate_module(const Module& module, const std::string& kind, uint64_t seed);

}  // namespace tilewright::mutation
