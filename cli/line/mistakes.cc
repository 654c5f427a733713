#include "cli/line/mistakes.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string_view>

#include "ir/ops/aliases.h"
#include "ir/ops/operator.h"
#include "ir/ops/source.h"

namespace tilewright::cli {
namespace {

// Other programs' names of commands and options.
struct OtherWord {
  std::string_view other, own;
};

constexpr OtherWord kOtherWords[] = {
    {"optimize", "tune"},
    {"autotune", "tune"},
    {"search", "tune"},
    {"benchmark", "bench"},
    {"compare", "bench"},
    {"list", "best"},
    {"ls", "best"},
    {"query", "best"},
    {"lookup", "best"},
    {"execute", "run"},
    {"exec", "run"},
    {"verify", "replay"},
    {"check", "replay"},
    {"print", "show"},
    {"dump", "show"},
    {"analyze", "explain"},
    {"why", "explain"},
    {"profile", "explain"},
    {"html", "report"},
    {"plot", "report"},
    {"codegen", "export"},
    {"generate", "export"},
    {"compile", "export"},
    {"onnx", "extract"},
    {"model", "extract"},
    {"tensors", "weights"},
    {"gguf", "weights"},
    {"safetensors", "weights"},
    {"database", "db"},
    {"operators", "ops"},
    {"operator", "ops"},
    {"devices", "targets"},
    {"hardware", "targets"},
    {"completion", "completions"},
    {"stats", "info"},
    {"clean", "prune"},
    {"delete", "prune"},
    {"gc", "prune"},
    {"fsck", "check"},
    // Options.
    {"iterations", "trials"},
    {"iters", "trials"},
    {"num-trials", "trials"},
    {"n-trials", "trials"},
    {"ntrials", "trials"},
    {"max-trials", "trials"},
    {"timeout", "time"},
    {"duration", "time"},
    {"budget", "time"},
    {"time-limit", "time"},
    {"database", "db"},
    {"cache", "db"},
    {"output", "out"},
    {"file", "out"},
    {"jobs", "threads"},
    {"cores", "threads"},
    {"cpus", "threads"},
    {"num-threads", "threads"},
    {"nthreads", "threads"},
    {"j", "threads"},
    {"device", "target"},
    {"arch", "target"},
    {"march", "target"},
    {"gpu", "target"},
    {"silent", "quiet"},
    {"q", "quiet"},
    {"continue", "resume"},
    {"algorithm", "search"},
    {"method", "search"},
    {"strategy", "search"},
    {"input", "in"},
    {"untuned", "default"},
    {"baseline", "default"},
    {"code", "source"},
    {"assembly", "asm"},
    {"ir", "program"},
    {"size", "dim"},
    {"shape", "dim"},
    {"dry", "dry-run"},
    {"plan", "dry-run"},
    {"repeat", "rounds"},
    {"reps", "rounds"},
    {"n", "trials"},
    {"t", "threads"},
    {"d", "db"},
    {"schedule", "trace"},
    {"format", "json"},
};

bool holds(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// "db prune"; empty for the program itself.
std::string path_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) return "";
  const std::string above = path_of(*parent);
  return above.empty() ? app.get_name() : above + " " + app.get_name();
}

// The command that the line got to; the program itself before any.
const CLI::App& reached(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : reached(*parsed[0]);
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

// "--trails=5" and "-trails" without what is not the name.
std::string bare_name(const std::string& word) {
  const size_t begin = word.find_first_not_of('-');
  if (begin == std::string::npos) return "";
  return word.substr(begin, word.find('=', begin) - begin);
}

// "PATH: WHAT; 'tune-cli help PATH' lists its options"
std::string message(const CLI::App& at, const std::string& what) {
  const std::string path = path_of(at), link = what.ends_with('?') ? " " : "; ";
  if (path.empty()) return what + link + "'tune-cli help' lists the commands";
  return fmt::format("{}: {}{}'tune-cli help {}' lists its options", path, what, link, path);
}

// "db merge" for "merge".
std::string command_below(const CLI::App& app, const std::string& word) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty() && holds(command_names(*sub), word)) {
      return fmt::format("; did you mean '{} {}'?", sub->get_name(), word);
    }
  }
  return "";
}

// The word in the place of a command that is none.
std::string no_command(const CLI::App& app, const std::string& word) {
  const std::string head = word.substr(0, word.find(':'));
  if (ops::find_operator_by_alias(head) != nullptr) {
    return head == word ? fmt::format(
                              "'{}' is an operator, not a command; 'tune-cli ops {}' "
                              "describes it",
                              word, word)
                        : fmt::format("'{}' is a spec, not a command; tune-cli tune '{}' tunes it",
                                      word, word);
  }
  std::error_code error;
  if (std::filesystem::is_regular_file(word, error)) {
    return fmt::format("'{}' is a file, not a command; 'tune-cli tune {}' takes a file of specs",
                       word, word);
  }
  std::string meant = command_below(app, word);
  if (meant.empty()) meant = did_you_mean(word, command_names(app));
  return fmt::format("unknown command '{}'{}", word, meant);
}

std::string unknown_option(const CLI::App& at, const std::string& word) {
  const std::vector<std::string> names = option_names(at);
  const std::string name = bare_name(word);
  if (holds(names, name) && name.size() > 1) {
    return fmt::format("unknown option '{}'; did you mean '--{}'?", word, name);
  }
  std::string meant = did_you_mean(name, names);
  const std::string quote = "did you mean '";
  if (const size_t place = meant.find(quote); place != std::string::npos) {
    const bool is_short = meant.size() == place + quote.size() + 3;
    meant.insert(place + quote.size(), is_short ? "-" : "--");
  }
  return fmt::format("unknown option '{}'{}", word, meant);
}

// Words behind the last command that it takes no use of.
std::string left_over(const CLI::App& at, const std::vector<std::string>& words) {
  const auto option = std::find_if(words.begin(), words.end(), is_option);
  const bool has_commands = !command_names(at).empty();
  if (has_commands && (option == words.end() || option != words.begin())) {
    const auto word = std::find_if(words.begin(), words.end(), [&](const std::string& w) {
      return !did_you_mean(w, command_names(at)).empty();
    });
    return message(at, no_command(at, word == words.end() ? words[0] : *word));
  }
  if (option != words.end()) return message(at, unknown_option(at, *option));
  return message(at, fmt::format("unexpected argument '{}'", words[0]));
}

// Words before the command.
std::string too_early(const CLI::App& app, const CLI::App& at, const std::string& word) {
  if (!is_option(word)) return message(app, no_command(app, word));
  if (!holds(option_names(at), bare_name(word))) return message(app, unknown_option(at, word));
  return message(
      at,
      fmt::format("'{0}' stands before the command; options follow the command: tune-cli {1} {0} …",
                  word, path_of(at)));
}

// The parser's own words, as ours where that is easy to see.
std::string reworded(std::string what) {
  const std::string convert = "Could not convert: ";
  if (what.starts_with(convert)) {
    what = what.substr(convert.size());
    if (const size_t equals = what.find(" = "); equals != std::string::npos) {
      return fmt::format("{}: '{}' is not of its type", what.substr(0, equals),
                         what.substr(equals + 3));
    }
  }
  const std::string missing = " missing", one = ": 1 required ";
  if (const size_t place = what.find(one); place != std::string::npos && what.ends_with(missing)) {
    const size_t type = place + one.size();
    return fmt::format("{}: expected a value of type {} after it", what.substr(0, place),
                       what.substr(type, what.size() - type - missing.size()));
  }
  return what;
}

std::string explain_required(const CLI::App& at, const std::string& what) {
  if (what.starts_with("A subcommand")) {
    return message(at, fmt::format("expected a command: {}", fmt::join(command_names(at), ", ")));
  }
  if (what.starts_with("spec ")) {
    return message(at,
                   "expected a spec, such as matmul:m=512,n=768,k=768; 'tune-cli ops' lists the "
                   "operators");
  }
  const std::string is = " is required";
  const std::string name = what.substr(0, what.find(is));
  return message(at,
                 fmt::format("expected {}{}", name.starts_with("-") ? "" : "the argument ", name));
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = reached(app);
  // Their names do not tell: that of ExtrasError is the command's.
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (required || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    if (&at != &app && !app.remaining().empty()) return too_early(app, at, app.remaining()[0]);
    if (!at.remaining().empty()) return left_over(at, at.remaining());
    const CLI::App* parent = at.get_parent();
    if (parent != nullptr && !parent->remaining().empty()) {
      return left_over(*parent, parent->remaining());
    }
  }
  return required ? explain_required(at, error.what()) : message(at, reworded(error.what()));
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  for (const OtherWord& w : kOtherWords) {
    if (w.other == word && holds(known, w.own)) return fmt::format("; did you mean '{}'?", w.own);
  }
  return ops::suggestion(word, known);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty()) names.push_back(sub->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back(name);
    for (const std::string& name : option->get_snames()) names.push_back(name);
  }
  if (app.get_parent() != nullptr) return names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    for (std::string& name : option_names(*sub)) {
      if (!holds(names, name)) names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace tilewright::cli
