#include "cli/line/command_line.h"

#include <algorithm>
#include <vector>

namespace tilewright::cli {
namespace {

std::vector<std::string>& words() {
  static std::vector<std::string> kept;
  return kept;
}

}  // namespace

void remember_command_line(int argc, const char* const* argv) { words().assign(argv, argv + argc); }

std::string resume_command() {
  std::vector<std::string> again = words();
  if (again.size() < 2) return "";
  if (std::find(again.begin(), again.end(), "--resume") == again.end()) {
    again.insert(std::find(again.begin(), again.end(), "--"), "--resume");  // no option behind that
  }
  std::string line;
  for (const std::string& word : again) line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

std::string shell_quoted(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+@%-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace tilewright::cli
