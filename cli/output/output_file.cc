#include "cli/output/output_file.h"

#include <fmt/format.h>

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

}  // namespace tilewright::cli
