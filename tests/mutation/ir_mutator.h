// Faults in scheduled programs: what a wrong rewrite could leave, before lowering.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/stmt.h"

namespace tilewright::mutation {

// "ir loop one short", …: each may be made in the main program, and in those that lay out weights.
const std::vector<std::string>& ir_kinds();

// The module with one fault of that kind at a place that the seed chooses; nothing where it has no
// such place, or where the place takes none.
std::optional<Module> mutate_module(const Module& module, const std::string& kind, uint64_t seed);

}  // namespace tilewright::mutation
