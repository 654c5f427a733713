// The commands as data, read off the option parser: what completions and the manual are made from.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tilewright::cli {

struct OptionInfo {
  std::vector<std::string> names;    // "-o", "--out"; a positional's one name: "spec"
  std::string value;                 // "TEXT", "INT", …; empty for a flag
  std::string description;           // one line
  std::string default_text;          // may be empty
  std::vector<std::string> choices;  // when the value is one of these words
  bool required = false;
  bool repeatable = false;

  bool takes_value() const { return !value.empty(); }
  bool takes_files() const { return value == "TEXT" || value == "FILE"; }
};

struct CommandInfo {
  std::string name;  // with those above it: "db info"; empty for the program
  std::string description;
  std::string footer;  // examples
  std::vector<OptionInfo> options, positionals;
  std::vector<CommandInfo> commands;

  std::string last_name() const { return name.substr(name.rfind(' ') + 1); }
};

/// Everything that is not hidden, in the order of definition.
CommandInfo describe(const CLI::App& app);

/// The command right below `app`, hidden or not; null when there is none of that name.
CLI::App* find_command(CLI::App& app, const std::string& name);

/// The command and all below it.
std::vector<const CommandInfo*> all_commands(const CommandInfo& root);

}  // namespace tilewright::cli
