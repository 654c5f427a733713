// tune-cli help and tune-cli version.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/line/command_tree.h"
#include "cli/line/mistakes.h"
#include "tilewright/version.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

struct HelpArguments {
  CommonOptions common;
  std::vector<std::string> command;
};

Json option_json(const OptionInfo& option) {
  return {{"names", option.names},
          {"value", option.value},
          {"description", option.description},
          {"default", option.default_text},
          {"choices", option.choices},
          {"required", option.required},
          {"repeatable", option.repeatable}};
}

Json command_json(const CommandInfo& command) {
  Json options = Json::array(), positionals = Json::array(), below = Json::array();
  for (const OptionInfo& o : command.options) options.push_back(option_json(o));
  for (const OptionInfo& o : command.positionals) positionals.push_back(option_json(o));
  for (const CommandInfo& c : command.commands) below.push_back(command_json(c));
  return {{"command", command.name},    {"description", command.description},
          {"examples", command.footer}, {"arguments", positionals},
          {"options", options},         {"commands", below}};
}

int run_help(const HelpArguments& a, CLI::App& program) {
  CLI::App* at = &program;
  for (const std::string& name : a.command) {
    CLI::App* sub = find_command(*at, name);
    if (sub == nullptr) {
      const std::string meant = did_you_mean(name, command_names(*at));
      throw UsageError(
          fmt::format("help: unknown command '{}'{} 'tune-cli help' lists the commands",
                      fmt::join(a.command, " "), meant.empty() ? ";" : meant));
    }
    at = sub;
  }
  const std::string wanted = fmt::format("{}", fmt::join(a.command, " "));
  if (!a.common.json) {
    const std::string name = wanted.empty() ? "tune-cli" : "tune-cli " + wanted;
    std::cout << at->get_formatter()->make_help(at, name, CLI::AppFormatMode::Normal);
    return kDone;
  }
  const CommandInfo all = describe(program);
  for (const CommandInfo* command : all_commands(all)) {
    if (command->name == wanted) print_json(command_json(*command));
  }
  return kDone;
}

// The version, and the revision behind it where the sources came with their history.
std::string version_text() {
  std::string version = TILEWRIGHT_VERSION, revision = build_revision();
  return revision == version ? version : version + " (" + revision + ")";
}

int run_version(const CommonOptions& options) {
  if (options.json) {
    print_json({{"version", TILEWRIGHT_VERSION}, {"revision", build_revision()}});
  } else {
    fmt::print("tune-cli {}\n", version_text());
  }
  return kDone;
}

}  // namespace

void add_help(CLI::App& app, Runners& runners) {
  const Wants nothing{.specs = false, .db = false, .target = false, .threads = false};
  app.set_version_flag("--version", version_text());
  auto a = std::make_shared<HelpArguments>();
  CLI::App* help = app.add_subcommand("help", "Prints the help of a command");
  add_common(*help, a->common, nothing);
  help->add_option("command", a->command, "Command; default: the list of commands");
  help->footer("Examples:\n  tune-cli help tune\n  tune-cli help db prune");
  runners["help"] = [a, &app] { return run_help(*a, app); };
  auto options = std::make_shared<CommonOptions>();
  CLI::App* version = app.add_subcommand("version", "Prints the version");
  add_common(*version, *options, nothing);
  version->footer("Example:\n  tune-cli version --json");
  runners["version"] = [options] { return run_version(*options); };
}

}  // namespace tilewright::cli
