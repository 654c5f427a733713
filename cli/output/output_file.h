// Files that commands write for their caller.
#pragma once

#include <filesystem>
#include <string>

namespace tilewright::cli {

// Writes the file, replacing one of that name. Throws UsageError with the path and the system's
// reason.
void write_text_file(const std::filesystem::path& path, const std::string& text);
// Throws UsageError that begins with `option` where no file can be made in the path's folder.
void require_writable_folder(const std::filesystem::path& path, const std::string& option);

}  // namespace tilewright::cli
