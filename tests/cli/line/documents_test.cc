// Completions and the manual page: they say what --help says.
#include <gmock/gmock.h>

#include "tests/cli/help_texts.h"
#include "tilewright/version.h"

namespace tilewright::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

// The text from `begin` to the next `end`; empty without them.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  from += begin.size();
  return text.substr(from, text.find(end, from) - from);
}

class Documents : public HelpTexts {
 protected:
  // What bash offers when TAB is pressed behind these words.
  std::vector<std::string> complete(const std::string& words) {
    std::ofstream(dir_ / "try.sh") << "source <(" TILEWRIGHT_BINARY_DIR
                                      "/tune-cli completions bash)\n"
                                      "COMP_WORDS=(" +
                                          words +
                                          ")\n"
                                          "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tune_cli\n"
                                          "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    Ran ran = shell("bash try.sh");
    EXPECT_EQ(ran.err, "") << words;
    return matches(ran.out, "(.+)");
  }
};

TEST_F(Documents, NameEveryCommandAndOption) {
  std::string bash = run("completions bash").out, zsh = run("completions zsh").out;
  std::string man = run("man").out;
  auto all = commands();
  ASSERT_THAT(all, Contains(testing::Key("tune")));
  ASSERT_THAT(all, Contains(testing::Key("db prune")));
  for (const auto& [command, options] : all) {
    // The first only holds commands, the second speaks lines of its own.
    if (command != "db" && command != "worker") {
      EXPECT_THAT(options, IsSupersetOf({"--help", "--json", "--quiet"})) << command;
    }
    std::string in_bash = between(bash, "    '" + command + "')\n", "esac ;;");
    std::string underscored = std::regex_replace(command, std::regex(" "), "_");
    std::string in_zsh = between(zsh, "_tune_cli_" + underscored + "() {", "\n}");
    std::string in_man = between(man, ".SS " + command + "\n", "\n.S");
    for (const std::string& option : options) {
      EXPECT_THAT(in_bash, HasSubstr(option)) << command;
      EXPECT_THAT(in_zsh, HasSubstr(option)) << command;
      std::string escaped = std::regex_replace(option, std::regex("-"), "\\-");
      EXPECT_THAT(in_man, HasSubstr("\\fB" + escaped + "\\fR")) << command;
    }
  }
}

TEST_F(Documents, EveryCommandHasAnExample) {
  for (const auto& [command, options] : commands()) {
    EXPECT_THAT(run(command + " --help").out, HasSubstr("Example")) << command;
  }
}

TEST_F(Documents, HiddenCommandsStayHidden) {
  for (const char* arguments : {"--help", "completions bash", "completions zsh", "man"}) {
    EXPECT_THAT(run(arguments).out, Not(HasSubstr("job-worker"))) << arguments;
  }
}

TEST_F(Documents, BashCompletesCommandsOptionsValuesAndSpecs) {
  ASSERT_EQ(shell(TILEWRIGHT_BINARY_DIR "/tune-cli completions bash | bash -n").code, 0);
  EXPECT_THAT(complete("tune-cli re"), testing::ElementsAre("replay", "report"));
  EXPECT_THAT(complete("tune-cli tune --tri"), testing::ElementsAre("--trials"));
  EXPECT_THAT(complete("tune-cli tune --target a"), testing::ElementsAre("avx512", "avx2"));
  EXPECT_THAT(complete("tune-cli tune matm"), testing::ElementsAre("matmul:"));
  EXPECT_THAT(complete("tune-cli db --db x.db pr"), testing::ElementsAre("prune"));
  EXPECT_THAT(complete("tune-cli db prune --k"), testing::ElementsAre("--keep", "--keep-failures"));
  std::ofstream(dir_ / "kernels.db") << "";
  EXPECT_THAT(complete("tune-cli best --db ker"), testing::ElementsAre("kernels.db"));
}

TEST_F(Documents, ZshOffersAgainWhatMayBeGivenAgain) {
  std::string zsh = run("completions zsh").out;
  std::string of_run = between(zsh, "_tune_cli_run() {", "\n}");
  EXPECT_THAT(of_run, HasSubstr("'*--in[NAME=FILE.npy"));
  EXPECT_THAT(of_run, HasSubstr("'--db[Database file]"));
}

TEST_F(Documents, EveryKnobIsListed) {
  Json targets = run("targets --json").json();
  std::vector<std::string> names;
  for (const Json& knob : targets["environment"]) names.push_back(knob["name"]);
  EXPECT_THAT(names, IsSupersetOf({"TILEWRIGHT_CC", "TILEWRIGHT_PEERS", "TILEWRIGHT_CPU_WITHOUT"}));
  std::string man = run("man").out;
  for (const std::string& name : names) EXPECT_THAT(man, HasSubstr(name));
}

TEST_F(Documents, TheVersionTellsTheRevision) {
  std::string revision = build_revision();
  std::string version = run("--version").out;
  EXPECT_THAT(version, testing::StartsWith(TILEWRIGHT_VERSION));
  EXPECT_THAT(version, HasSubstr(revision));
}

TEST_F(Documents, TheManualIsSoundRoff) {
  ASSERT_EQ(run("man -o tune-cli.1").code, 0);
  std::string text = read(dir_ / "tune-cli.1");
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "OPERATORS",
                              "ENVIRONMENT", "EXIT STATUS"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n.SH ") + section + "\n"));
  }
  for (unsigned char c : text) ASSERT_LT(c, 0x80) << "roff input is ASCII";
  if (shell("command -v groff").code != 0) GTEST_SKIP() << "groff is not installed";
  Ran groff = shell("groff -man -Tutf8 -ww tune-cli.1 >/dev/null");
  EXPECT_EQ(groff.code, 0);
  EXPECT_EQ(groff.err, "");
}

TEST_F(Documents, FishNamesEveryCommandAndOption) {
  const std::string fish = run("completions fish").out;
  for (const auto& [command, options] : commands()) {
    const std::string condition = "-n '__tune_cli_is \"" + command + "\"'";
    for (const std::string& option : options) {
      const bool is_long = option.starts_with("--");
      const std::string wanted =
          (is_long ? " -l " + option.substr(2) : " -s " + option.substr(1)) + " ";
      const auto lines = matches(fish, "^(complete.*" + wanted + ".*)$");
      EXPECT_THAT(lines, Contains(HasSubstr(condition))) << command << " " << option;
    }
  }
  EXPECT_THAT(fish, HasSubstr("-l target -x -a 'native avx512"));
  EXPECT_THAT(fish, Not(HasSubstr("job-worker")));
  if (shell("command -v fish").code != 0) GTEST_SKIP() << "fish is not installed";
  std::ofstream(dir_ / "tune-cli.fish") << fish;
  Ran offered = shell(
      "HOME='" + dir_.string() +
      "' fish -c 'source tune-cli.fish; complete -C \"tune-cli db --db x.db pr\"; complete -C "
      "\"tune-cli tune --tri\"'");
  EXPECT_THAT(offered.out, HasSubstr("prune\t")) << offered.err;
  EXPECT_THAT(offered.out, HasSubstr("--trials\t"));
}

TEST_F(Documents, OtherShellsAreRefused) {
  Ran tcsh = run("completions tcsh");
  EXPECT_EQ(tcsh.code, 2);
  EXPECT_THAT(tcsh.err, HasSubstr("tcsh not in {bash,zsh,fish}"));
}

}  // namespace
}  // namespace tilewright::cli
