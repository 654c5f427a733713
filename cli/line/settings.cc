#include "cli/line/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/knobs.h"
#include "cli/command.h"
#include "cli/line/command_tree.h"
#include "cli/line/mistakes.h"

namespace tilewright::cli {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "~/kernels.db" is in the user's home, as it is in a shell.
std::string in_home(const std::string& value) {
  const std::string home = environment("HOME");
  return value.starts_with("~/") && !home.empty() ? home + value.substr(1) : value;
}

// The commands of a command line, outermost first: "db", "prune".
std::vector<CLI::App*> parsed_commands(CLI::App& app) {
  std::vector<CLI::App*> path;
  for (CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands()[0];
    path.push_back(at);
  }
  return path;
}

CLI::Option* option_of(CLI::App& app, const std::string& name) {
  CLI::Option* option = app.get_option_no_throw("--" + name);
  return option != nullptr && option->get_configurable() ? option : nullptr;
}

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0';
}

bool any_has(CLI::App& app, const std::string& name) {
  if (option_of(app, name) != nullptr) return true;
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) {
    if (any_has(*sub, name)) return true;
  }
  return false;
}

// The parser's reader of such files, whose values are given to the options of the command at hand.
class Settings : public CLI::ConfigTOML {
 public:
  explicit Settings(CLI::App& app) : app_(app) {}

  // Nothing is left to the parser, which would take values for commands that do not run.
  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    if (only_explains()) return {};
    file_ = app_.get_config_ptr()->as<std::string>();
    std::vector<CLI::ConfigItem> own, shared;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(in)) {
      if (item.name == "++" || item.name == "--") continue;
      require_known(item);
      (item.parents.empty() ? shared : own).push_back(std::move(item));
    }
    for (const auto* list : {&own, &shared}) {
      for (const CLI::ConfigItem& item : *list) apply(item);
    }
    return {};
  }

 private:
  // Help is there whatever the file holds.
  bool only_explains() const {
    const std::vector<CLI::App*> path = parsed_commands(app_);
    if (path.empty()) return true;
    const std::string name = path[0]->get_name();
    return name == "help" || name == "version" || path.back()->get_help_ptr()->count() > 0;
  }

  [[noreturn]] void fail(const std::string& what) const { throw UsageError(file_ + ": " + what); }

  void require_known(const CLI::ConfigItem& item) const {
    CLI::App* app = &app_;
    for (const std::string& name : item.parents) {
      CLI::App* sub = find_command(*app, name);
      if (sub == nullptr) {
        fail(fmt::format("[{}]: there is no command '{}'{}", fmt::join(item.parents, "."), name,
                         did_you_mean(name, command_names(*app))));
      }
      app = sub;
    }
    const bool known =
        item.parents.empty() ? any_has(app_, item.name) : option_of(*app, item.name) != nullptr;
    if (known) return;
    const std::string where =
        item.parents.empty() ? "any command" : fmt::format("{}", fmt::join(item.parents, " "));
    const std::string meant = did_you_mean(item.name, option_names(*app));
    fail(fmt::format("'{}' is no option of {}{} 'tune-cli help {}' lists them", item.name, where,
                     meant.empty() ? ";" : meant, item.parents.empty() ? "COMMAND" : where));
  }

  void apply(const CLI::ConfigItem& item) const {
    std::vector<std::string> path;
    for (CLI::App* command : parsed_commands(app_)) {
      path.push_back(command->get_name());
      if (!item.parents.empty() && item.parents != path) continue;
      CLI::Option* option = option_of(*command, item.name);
      if (option == nullptr || !option->empty()) continue;
      if (item.name == "db" && !environment("TILEWRIGHT_DB").empty()) continue;
      try {
        give(*option, item);
      } catch (const CLI::ParseError& e) {
        const std::string value = fmt::format("{}", fmt::join(item.inputs, " "));
        const std::string type = option->get_type_name();
        const bool wants_number =
            type.starts_with("INT") || type.starts_with("UINT") || type.starts_with("FLOAT");
        fail(fmt::format(
            "{}{} = \"{}\": {}",
            item.parents.empty() ? "" : fmt::format("[{}] ", fmt::join(item.parents, ".")),
            item.name, value, wants_number && !is_number(value) ? "expected a number" : e.what()));
      }
    }
  }

  static void give(CLI::Option& option, const CLI::ConfigItem& item) {
    if (option.get_items_expected_max() == 0) {
      option.add_result(
          option.get_flag_value(item.name, item.inputs.empty() ? "true" : item.inputs[0]));
    } else {
      for (const std::string& value : item.inputs) option.add_result(in_home(value));
    }
    option.run_callback();
  }

  CLI::App& app_;
  mutable std::string file_;
};

}  // namespace

std::string settings_path() {
  std::string named = knob_text(Knob::Config);
  if (named == "off") return "";
  std::error_code error;
  if (!named.empty()) {
    if (fs::is_regular_file(named, error)) return named;
    throw UsageError("TILEWRIGHT_CONFIG=" + named + ": there is no such file; \"off\" reads none");
  }
  const std::string xdg = environment("XDG_CONFIG_HOME"), home = environment("HOME");
  if (xdg.empty() && home.empty()) return "";
  const fs::path file =
      (xdg.empty() ? fs::path(home) / ".config" : fs::path(xdg)) / "tilewright" / "config.toml";
  return fs::is_regular_file(file, error) ? file.string() : "";
}

void add_settings(CLI::App& app) {
  app.config_formatter(std::make_shared<Settings>(app));
  app.set_config(
         "--settings", "",
         "File with defaults of options, instead of $XDG_CONFIG_HOME/tilewright/config.toml")
      ->type_name("FILE")
      ->take_last();
  // As if it had been given first, so that one that cannot be read is said.
  app.preparse_callback([&app](size_t) {
    const std::string file = settings_path();
    if (!file.empty()) app.get_config_ptr()->add_result(file);
  });
}

}  // namespace tilewright::cli
