#include "cli/output/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/command.h"

namespace tilewright::cli {

void write_text_file(const std::filesystem::path& path, const std::string& text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    throw UsageError(fmt::format("cannot write '{}': {}", path.string(),
                                 errno != 0 ? std::strerror(errno) : "unknown reason"));
  }
}

void require_writable_folder(const std::filesystem::path& path, const std::string& option) {
  std::filesystem::path folder = path.parent_path();
  if (folder.empty()) folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  throw UsageError(fmt::format("{} {}: the folder '{}' cannot be written ({})", option,
                               path.string(), folder.string(), std::strerror(errno)));
}

}  // namespace tilewright::cli
