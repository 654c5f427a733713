// Files that commands write for their caller.
#pragma once

#include <filesystem>
#include <string>

namespace tilewright::cli {

// Writes the file, replacing one of that name. Throws UsageError with the path and the system's
// reason.
void write_text_file(const std::filesystem::path& path, const std::string& text);

}  // namespace tilewright::cli
