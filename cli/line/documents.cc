// tune-cli completions and tune-cli man: texts made from the option parser itself. Hidden: packagers
// and the build call them.
#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/command.h"
#include "cli/line/completions.h"
#include "cli/line/man_page.h"
#include "cli/output/output_file.h"

namespace tilewright::cli {
namespace {

struct DocumentArguments {
  std::string shell, out = "-";
};

int write(const DocumentArguments& a, const std::string& text) {
  if (a.out == "-") {
    std::cout << text << std::flush;
  } else {
    write_text_file(a.out, text);
  }
  return kDone;
}

void add_out(CLI::App& sub, DocumentArguments& a) {
  sub.add_option("-o,--out", a.out, "Output file, or '-' for standard output")
      ->capture_default_str();
}

}  // namespace

void add_documents(CLI::App& app, Runners& runners) {
  auto a = std::make_shared<DocumentArguments>();
  CLI::App* completions =
      app.add_subcommand("completions", "Prints completions for a shell")->group("");
  completions->add_option("shell", a->shell, "Shell: bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  add_out(*completions, *a);
  completions->footer("Example:\n  source <(tune-cli completions bash)");
  runners["completions"] = [a, &app] {
    CommandInfo program = describe(app);
    return write(*a, a->shell == "bash"  ? bash_completions(program)
                     : a->shell == "zsh" ? zsh_completions(program)
                                         : fish_completions(program));
  };
  CLI::App* man = app.add_subcommand("man", "Prints the manual page")->group("");
  add_out(*man, *a);
  man->footer("Example:\n  tune-cli man | man -l -");
  runners["man"] = [a, &app] { return write(*a, man_page(describe(app))); };
}

}  // namespace tilewright::cli
