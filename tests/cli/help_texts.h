// The commands and their options, as --help names them.
#pragma once

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/cli/support.h"

namespace tilewright::cli {

// The first group of each match.
inline std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> list;
  std::regex regex(pattern, std::regex::multiline);
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    list.push_back((*it)[1]);
  }
  return list;
}

class HelpTexts : public Cli {
 protected:
  // Names of the commands right below one, by its help.
  std::vector<std::string> subcommands(const std::string& command) {
    std::string help = run(command + " --help").out;
    return matches(help.substr(std::min(help.size(), help.find("Subcommands:"))), "^  ([a-z]+) ");
  }

  // All commands with their options.
  std::map<std::string, std::vector<std::string>> commands() {
    std::map<std::string, std::vector<std::string>> all;
    std::vector<std::string> open = subcommands("");
    while (!open.empty()) {
      std::string command = open.back();
      open.pop_back();
      std::string help = run(command + " --help").out;
      all[command] = matches(help, "(?:^  |,)(--?[a-z-]+)");
      for (const std::string& sub : subcommands(command)) open.push_back(command + " " + sub);
    }
    return all;
  }
};

}  // namespace tilewright::cli
