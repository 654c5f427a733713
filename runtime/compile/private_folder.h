// Temporary files in a folder that nobody else can enter.
#pragma once

#include <string>

namespace tilewright {

// This process's folder for temporary files: made by mkdtemp() under temporary_directory() when it is
// first asked for, with no rights for others, and removed with all in it when the process ends. What
// killed processes of this user left is removed when a folder is made. Throws ToolchainError that
// names the directory and TMPDIR where none can be made. Safe from many threads.
std::string private_folder();

// A path in that folder which no other call gives; `suffix` ends it, such as ".so".
std::string private_path(const std::string& suffix);

// Removes the folders in `directory` that processes of this user left behind when they were killed.
// Follows no symbolic links and leaves what belongs to others or to a living process.
void sweep_private_folders(const std::string& directory);

}  // namespace tilewright
