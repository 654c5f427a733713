// The manual page, in the man macros of roff.
#pragma once

#include <string>

#include "cli/line/command_tree.h"

namespace tilewright::cli {

std::string man_page(const CommandInfo& program);

}  // namespace tilewright::cli
