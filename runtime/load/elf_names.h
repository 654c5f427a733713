// Names that the checker of shared objects knows: tags, libraries, functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/load/elf_check.h"

namespace tilewright {

// "DT_NEEDED", or "the tag 0x1234".
std::string tag_name(int64_t tag);
// Why an object with this tag in its dynamic section is refused; empty for those that kernels have.
std::string tag_problem(int64_t tag, bool aarch64);
// Tags that the loader takes to be there together.
const std::vector<std::vector<int64_t>>& tag_groups();
// Whether an object of this kind may name the library as DT_NEEDED.
bool is_known_library(std::string_view name, ObjectKind kind);
// Whether an object of this kind may take the function from other libraries.
bool is_known_function(std::string_view name, ObjectKind kind);

}  // namespace tilewright
