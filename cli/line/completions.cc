#include "cli/line/completions.h"

#include <fmt/format.h>

#include "ir/ops/operator.h"

namespace tilewright::cli {
namespace {

// "matmul: conv2d: …": what a spec begins with.
std::string spec_heads() {
  std::string words;
  for (const Operator& op : operators()) words += (words.empty() ? "" : " ") + op.name + ":";
  return words;
}

std::string option_words(const CommandInfo& command) {
  std::string words;
  for (const OptionInfo& option : command.options) {
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

std::string command_words(const CommandInfo& command) {
  std::string words;
  for (const CommandInfo& sub : command.commands) {
    words += (words.empty() ? "" : " ") + sub.last_name();
  }
  return words;
}

// bash ------------------------------------------------------------------------------------------

// The values that may follow an option: its words, files, or nothing that can be guessed.
std::string bash_values(const CommandInfo& command) {
  std::string cases;
  for (const OptionInfo& option : command.options) {
    if (!option.takes_value()) continue;
    std::string reply = ":";
    if (!option.choices.empty()) {
      reply = fmt::format("words='{}'", fmt::join(option.choices, " "));
    } else if (option.takes_files()) {
      reply = "files=1";
    }
    cases += fmt::format("        {}) {} ;;\n", fmt::join(option.names, "|"), reply);
  }
  return cases;
}

std::string bash_positionals(const CommandInfo& command) {
  if (!command.commands.empty()) return fmt::format("words='{}'", command_words(command));
  for (const OptionInfo& p : command.positionals) {
    if (p.names[0] == "spec") return fmt::format("words='{}'; files=1; space=''", spec_heads());
  }
  return command.positionals.empty() ? ":" : "files=1";
}

constexpr const char* kBashHead =
    R"(# bash completions of tune-cli, made by: tune-cli completions bash
_tune_cli() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command='' words='' files='' space=1 i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command/${COMP_WORDS[i]}" in
)";

constexpr const char* kBashTail = R"(  COMPREPLY=()
  [[ -n $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY+=($(compgen -f -- "$cur"))
  fi
  [[ -z $space ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _tune_cli tune-cli
)";

// zsh -------------------------------------------------------------------------------------------

std::string zsh_quoted(const std::string& text, const std::string& escaped) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '\\' || escaped.find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionInfo& option) {
  if (option.names[0] == "spec") return "_tune_cli_spec";
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  return option.takes_files() ? "_files" : " ";
}

// "'--db[Database file]:TEXT:_files'", or "'(-o --out)'{-o,--out}'[…]…'" for several names; a star
// in front where the option may be given again.
std::string zsh_option(const OptionInfo& option) {
  std::string rest = "[" + zsh_quoted(option.description, "[]") + "]";
  if (option.takes_value()) rest += ":" + option.value + ":" + zsh_action(option);
  std::string star = option.repeatable ? "*" : "";
  if (option.names.size() == 1) return "'" + star + option.names[0] + rest + "'";
  std::string once =
      option.repeatable ? "'*'" : fmt::format("'({})'", fmt::join(option.names, " "));
  return fmt::format("{}{{{}}}'{}'", once, fmt::join(option.names, ","), rest);
}

std::string zsh_arguments(const CommandInfo& command) {
  std::string out = command.commands.empty() ? "_arguments" : "_arguments -C";
  for (const OptionInfo& option : command.options) out += " \\\n    " + zsh_option(option);
  for (const OptionInfo& p : command.positionals) {
    out += fmt::format(" \\\n    '*:{}:{}'", p.names[0], zsh_action(p));
  }
  return out;
}

std::string zsh_function_name(const CommandInfo& command) {
  std::string name = "_tune_cli";
  if (!command.name.empty()) name += "_" + command.name;
  for (char& c : name) {
    if (c == ' ' || c == '-') c = '_';
  }
  return name;
}

// One function a command; a command with commands below it hands on to theirs.
std::string zsh_function(const CommandInfo& command) {
  std::string name = zsh_function_name(command);
  if (command.commands.empty()) {
    return fmt::format("{}() {{\n  {}\n}}\n\n", name, zsh_arguments(command));
  }
  std::string entries, cases;
  for (const CommandInfo& sub : command.commands) {
    entries += fmt::format("    '{}:{}'\n", sub.last_name(), zsh_quoted(sub.description, ":"));
    cases += fmt::format("      {}) {} ;;\n", sub.last_name(), zsh_function_name(sub));
  }
  CommandInfo own = command;
  own.positionals.clear();
  return fmt::format(
      "{}() {{\n  local curcontext=\"$curcontext\" state line\n  typeset -A opt_args\n"
      "  local -a commands\n  commands=(\n{}  )\n  {} \\\n    '1:command:->command' \\\n"
      "    '*::argument:->argument'\n  case $state in\n"
      "    command) _describe command commands ;;\n    argument) case $line[1] in\n{}    esac ;;\n"
      "  esac\n}}\n\n",
      name, entries, zsh_arguments(own), cases);
}

}  // namespace

std::string bash_completions(const CommandInfo& program) {
  std::string out = kBashHead;
  std::vector<const CommandInfo*> commands = all_commands(program);
  for (const CommandInfo* c : commands) {
    if (c->name.empty()) continue;
    size_t space = c->name.rfind(' ');
    std::string above = space == std::string::npos ? "" : c->name.substr(0, space);
    out += fmt::format("      '{}/{}') command='{}' ;;\n", above, c->last_name(), c->name);
  }
  out += "    esac\n  done\n  case \"$command\" in\n";
  for (const CommandInfo* c : commands) {
    out += fmt::format(
        "    '{}')\n      case \"$prev\" in\n{}        *)\n"
        "          if [[ $cur == -* ]]; then\n            words='{}'\n          else\n"
        "            {}\n          fi ;;\n      esac ;;\n",
        c->name, bash_values(*c), option_words(*c), bash_positionals(*c));
  }
  return out + "  esac\n" + kBashTail;
}

std::string zsh_completions(const CommandInfo& program) {
  std::string out =
      "#compdef tune-cli\n# zsh completions of tune-cli, made by: tune-cli completions zsh\n\n";
  out += fmt::format("_tune_cli_spec() {{\n  compadd -S '' -- {}\n  _files\n}}\n\n", spec_heads());
  for (const CommandInfo* c : all_commands(program)) out += zsh_function(*c);
  return out + "_tune_cli \"$@\"\n";
}

}  // namespace tilewright::cli
