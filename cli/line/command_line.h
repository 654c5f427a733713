// The command line as it was given, to be said again.
#pragma once

#include <string>

namespace tilewright::cli {

// Keeps it for the functions below. Called once, before anything is parsed.
void remember_command_line(int argc, const char* const* argv);

// The command that goes on where this one was interrupted: the same with `--resume`, quoted for a
// shell. Empty when nothing was remembered.
std::string resume_command();

// The word as a POSIX shell reads it back: in quotes where it needs them.
std::string shell_quoted(const std::string& word);

}  // namespace tilewright::cli
