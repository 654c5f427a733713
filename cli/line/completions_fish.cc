#include <fmt/format.h>

#include "cli/line/completions.h"
#include "ir/ops/operator.h"

namespace tilewright::cli {
namespace {

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// The condition that the command line holds this command: its words one after the other, or none of
// the commands yet.
std::string condition(const CommandInfo& command) {
  return command.name.empty() ? "'__tune_cli_is \"\"'"
                              : fmt::format("'__tune_cli_is \"{}\"'", command.name);
}

std::string option_line(const CommandInfo& command, const OptionInfo& option) {
  std::string line = "complete -c tune-cli -n " + condition(command);
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (option.takes_value()) {
    if (!option.choices.empty()) {
      line += " -x -a " + fish_quoted(fmt::format("{}", fmt::join(option.choices, " ")));
    } else {
      line += option.takes_files() ? " -r -F" : " -x";
    }
  }
  return line + " -d " + fish_quoted(option.description) + "\n";
}

std::string positional_lines(const CommandInfo& command) {
  const std::string begin = "complete -c tune-cli -n " + condition(command);
  for (const OptionInfo& p : command.positionals) {
    if (p.names[0] != "spec") return begin + " -F\n";
    std::string heads;
    for (const Operator& op : operators()) heads += (heads.empty() ? "" : " ") + op.name + ":";
    return begin + " -F -a " + fish_quoted(heads) + "\n";
  }
  return "";
}

// The commands that the words of the line may lead to, for the function that finds which.
std::string known_commands(const CommandInfo& program) {
  std::string words;
  for (const CommandInfo* c : all_commands(program)) {
    if (!c->name.empty()) words += " " + fish_quoted(c->name);
  }
  return words;
}

}  // namespace

std::string fish_completions(const CommandInfo& program) {
  std::string out =
      "# fish completions of tune-cli, made by: tune-cli completions fish\n"
      "function __tune_cli_is\n"
      "  set -l found ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    set -l next (string trim -- \"$found $word\")\n"
      "    if contains -- $next" +
      known_commands(program) +
      "\n      set found $next\n"
      "    end\n"
      "  end\n"
      "  test \"$found\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c tune-cli -f\n";
  for (const CommandInfo* command : all_commands(program)) {
    for (const CommandInfo& sub : command->commands) {
      out += fmt::format("complete -c tune-cli -n {} -a {} -d {}\n", condition(*command),
                         sub.last_name(), fish_quoted(sub.description));
    }
    for (const OptionInfo& option : command->options) out += option_line(*command, option);
    if (!command->name.empty()) out += positional_lines(*command);
  }
  return out;
}

}  // namespace tilewright::cli
