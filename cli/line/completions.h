// Completion scripts for shells.
#pragma once

#include <string>

#include "cli/line/command_tree.h"

namespace tilewright::cli {

std::string bash_completions(const CommandInfo& program);
std::string zsh_completions(const CommandInfo& program);
std::string fish_completions(const CommandInfo& program);

}  // namespace tilewright::cli
