#include "cli/line/command_tree.h"

#include <CLI/CLI.hpp>

#include "kernel/target.h"
#include "tuner/search/search.h"

namespace tilewright::cli {
namespace {

// The words that a value may be, where the parser leaves it to the command to judge.
std::vector<std::string> choices_of(const CLI::Option& option) {
  if (option.check_lname("target")) return Target::names();
  std::vector<std::string> kinds;
  if (option.check_lname("search")) {
    for (SearchKind k : kSearchKinds) kinds.emplace_back(name_of(k));
  }
  return kinds;
}

OptionInfo describe_option(const CLI::Option& option) {
  OptionInfo info;
  for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
  if (info.names.empty()) info.names.push_back(option.get_name());
  if (option.get_items_expected_max() > 0) {
    // "INT:INT in [0 - 1024]": what follows is the validator's.
    std::string type = option.get_type_name();
    info.value = type.substr(0, type.find_first_of(": "));
  }
  info.description = option.get_description();
  info.default_text = option.get_default_str();
  info.choices = choices_of(option);
  info.required = option.get_required();
  info.repeatable = option.get_items_expected_max() > 1;
  return info;
}

CommandInfo describe_named(const CLI::App& app, const std::string& name) {
  CommandInfo info{name, app.get_description(), app.get_footer(), {}, {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->nonpositional() ? info.options : info.positionals).push_back(describe_option(*option));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_group().empty()) continue;
    info.commands.push_back(
        describe_named(*sub, (name.empty() ? "" : name + " ") + sub->get_name()));
  }
  return info;
}

}  // namespace

CommandInfo describe(const CLI::App& app) { return describe_named(app, ""); }

CLI::App* find_command(CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](CLI::App* sub) { return sub->get_name() == name; });
  return found.empty() ? nullptr : found[0];
}

std::vector<const CommandInfo*> all_commands(const CommandInfo& root) {
  std::vector<const CommandInfo*> list = {&root};
  for (const CommandInfo& command : root.commands) {
    for (const CommandInfo* below : all_commands(command)) list.push_back(below);
  }
  return list;
}

}  // namespace tilewright::cli
