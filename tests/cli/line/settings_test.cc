// Where options come from besides the command line, and configs of one's own.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Settings : public Cli {
 protected:
  // In XDG's place, in a home of the test's own.
  void write_settings(const std::string& text) {
    fs::create_directories(dir_ / "xdg" / "tilewright");
    std::ofstream(dir_ / "xdg" / "tilewright" / "config.toml") << text;
  }
  Ran with_settings(const std::string& arguments, const std::string& more = "") {
    return run(arguments, "XDG_CONFIG_HOME='" + (dir_ / "xdg").string() + "' " + more);
  }
};

TEST_F(Settings, TheFileGivesDefaults) {
  write_settings(
      "# mine\ndb = \"kernels.db\"\nthreads = 1\n\n[tune]\ntrials = 3\nquiet = true\n"
      "[db.prune]\nkeep = 7\n");
  Ran tuned = with_settings(std::string("tune --json ") + kSmall);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.json()["results"][0]["trials"], 3);
  EXPECT_EQ(tuned.err, "");
  EXPECT_TRUE(fs::exists(dir_ / "kernels.db"));
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db"));
  EXPECT_EQ(with_settings("best --json").json()["results"].size(), 1u) << "threads and db";
  // The command line goes first, then the environment.
  EXPECT_EQ(with_settings(std::string("tune --json --resume --trials 4 ") + kSmall)
                .json()["results"][0]["trials"],
            4);
  EXPECT_EQ(with_settings("best --json", "TILEWRIGHT_DB=other.db").code, 5);
  EXPECT_EQ(with_settings("best --json --db kernels.db", "TILEWRIGHT_DB=other.db").code, 0);
  EXPECT_EQ(run("best --db kernels.db --threads 1", "TILEWRIGHT_CONFIG=off").code, 0);
  EXPECT_EQ(run("--settings xdg/tilewright/config.toml best").code, 0);
}

TEST_F(Settings, TheEnvironmentNamesTheDatabase) {
  ASSERT_EQ(
      run(std::string("tune --quiet --trials 1 --threads 1 ") + kSmall, "TILEWRIGHT_DB=mine.db")
          .code,
      0);
  EXPECT_TRUE(fs::exists(dir_ / "mine.db"));
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db"));
  EXPECT_EQ(run("db info --json", "TILEWRIGHT_DB=mine.db").json()["path"], "mine.db");
  EXPECT_EQ(run("db info --json --db mine.db", "TILEWRIGHT_DB=other.db").code, 0);
}

TEST_F(Settings, MistakesInTheFileAreSaidWithItsName) {
  auto refused = [&](const std::string& text, const std::string& message) {
    write_settings(text);
    const Ran tune = with_settings(std::string("tune --dry-run ") + kSmall);
    EXPECT_EQ(tune.code, 2) << text;
    EXPECT_THAT(tune.err, HasSubstr("/xdg/tilewright/config.toml: ")) << text;
    EXPECT_THAT(tune.err, HasSubstr(message)) << text;
    EXPECT_EQ(with_settings("--help").code, 0) << "help is there all the same";
    EXPECT_EQ(with_settings("help tune").code, 0);
  };
  refused("trails = 5\n", "'trails' is no option of any command; did you mean 'trials'?");
  refused("[tune]\ntrails = 5\n", "'trails' is no option of tune; did you mean 'trials'?");
  refused("[tuen]\ntrials = 5\n", "[tuen]: there is no command 'tuen'; did you mean 'tune'?");
  refused("[tune]\ntrials = many\n", "[tune] trials = \"many\": expected a number");
  refused("[tune]\ntrials = -1\n", "[tune] trials = \"-1\": --trials: Value -1 not in range");
  refused("[tune]\nquiet = maybe\n", "quiet");
  const Ran missing = run("targets", "TILEWRIGHT_CONFIG=none.toml");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("TILEWRIGHT_CONFIG=none.toml: there is no such file"));
}

// Messages of a terminal are colored; script(1) makes one.
TEST_F(Settings, NoColorIsHeeded) {
  if (shell("command -v script").code != 0) GTEST_SKIP() << "script is not installed";
  auto said =
      [&](const std::string& environment) {
        // A warning: the compiler of the default fails.
        std::ofstream(dir_ / "cc")
            << "#!/bin/sh\n[ \"$1\" = --version ] && exec echo fake 1.0; exit 1\n";
        fs::permissions(dir_ / "cc", fs::perms::owner_all);
        const std::string command =
            environment +
            " TILEWRIGHT_CACHE=off TILEWRIGHT_CC=./cc " TILEWRIGHT_BINARY_DIR
            "/tune-cli tune --quiet --trials 2 --threads 1 " +
            kSmall;
        return shell("TERM=xterm script -qec '" + command + "' /dev/null").out;
      };
  EXPECT_THAT(said(""), HasSubstr("\x1b[33m"));
  const std::string plain = said("NO_COLOR=1");
  EXPECT_THAT(plain, HasSubstr("the untuned default"));
  EXPECT_THAT(plain, Not(HasSubstr("\x1b[3")));
}

TEST_F(Settings, AConfigOfOnesOwnIsShownAndTuned) {
  const std::string spec = std::string(" --threads 1 ") + kSmall;
  ASSERT_EQ(run("tune --quiet --trials 12" + spec).code, 0);
  const Ran printed = run("show --config" + spec);
  ASSERT_EQ(printed.code, 0) << printed.err;
  Json mine = Json::parse(printed.out);
  std::ofstream(dir_ / "mine.json") << mine;
  Ran shown = run("show --config=mine.json --program --json" + spec);
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(shown.json()["results"][0]["program"],
            run("show --program --json" + spec).json()["results"][0]["program"]);
  // It is the second trial of a run that has two, behind the default.
  Ran tuned = run("tune --json --db new.db --trials 2 --config mine.json" + spec);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.json()["results"][0]["best"]["config"], mine["config"]);
  // What `best` prints of several workloads goes to the one that it is of.
  ASSERT_EQ(shell(TILEWRIGHT_BINARY_DIR "/tune-cli best --json --threads 1 >rows.json").code, 0);
  EXPECT_EQ(run("tune --quiet --db b.db --trials 2 --config rows.json softmax:m=4,n=8" + spec).code,
            0);
  auto refused = [&](const Json& config, const std::string& message) {
    std::ofstream(dir_ / "bad.json") << config;
    const Ran ran = run("tune --db c.db --config bad.json" + spec);
    EXPECT_EQ(ran.code, 2) << config;
    EXPECT_THAT(ran.err, HasSubstr("bad.json: " + message)) << config;
    EXPECT_THAT(ran.err, HasSubstr("'tune-cli show SPEC --config' prints one")) << config;
    EXPECT_FALSE(fs::exists(dir_ / "c.db"));
  };
  Json other = mine;
  other["config"]["frob"] = 3;
  refused(other, "the config does not fit matmul:m=32,n=48,k=16: ");
  other = mine;
  other["sketch"] = "frob";
  refused(other, "'sketch': expected one of ");
  other = mine;
  other["version"] = 999;
  refused(other, "made for version 999 of sketch ");
  refused(Json::array(), "it holds no config");
  refused(3, "expected an object with the keys 'sketch' and 'config'");
  EXPECT_THAT(run("tune --db c.db --config rows.json softmax:m=4,n=8").err,
              HasSubstr("rows.json: the config is of another workload"));
}

TEST_F(Settings, HelpAndVersionAreCommandsToo) {
  EXPECT_EQ(run("help").out, run("--help").out);
  EXPECT_EQ(run("help db prune").out, run("db prune --help").out);
  EXPECT_THAT(run("help tune").out, HasSubstr("--trials"));
  const Json help = run("help tune --json").json();
  EXPECT_EQ(help["command"], "tune");
  EXPECT_THAT(run("version").out, testing::StartsWith("tune-cli "));
  EXPECT_THAT(run("--version").out, HasSubstr(run("version --json").json()["version"]));
  EXPECT_EQ(run("ops gemm --json").json()["ops"][0]["op"], "matmul");
  EXPECT_EQ(run("ops matmul softmax --json").json()["ops"].size(), 2u);
}

TEST_F(Settings, TextsFitEightyColumns) {
  const auto expect_fits = [](const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      // Specs are to be copied, and stay whole.
      const bool is_spec = line.starts_with("  example: ") || line.starts_with("matmul:");
      EXPECT_TRUE(is_spec || line.size() <= 80) << line;
    }
  };
  const std::string ops = run("ops").out;
  expect_fits(ops);
  EXPECT_THAT(ops, HasSubstr("\n                            "));  // words of a key go on there
  ASSERT_EQ(run("tune --quiet --trials 4 --threads 1 matmul:m=64,n=48,k=32").code, 0);
  const std::string explained = run("explain --threads 1 matmul:m=64,n=48,k=32").out;
  EXPECT_THAT(explained, HasSubstr("of this machine's roofline"));
  expect_fits(explained);
}

TEST_F(Settings, SpecsStandOneALine) {
  std::ofstream(dir_ / "specs.txt") << "# a model\nmatmul:m=8,n=8,k=8\n\nlinear:m=4,n=8,k=8\n";
  EXPECT_EQ(run("tune --dry-run --json specs.txt").json()["results"].size(), 2u);
  Ran piped = shell("printf 'softmax:m=4,n=8\\nmatmul:m=8,n=8,k=8\\n' | " TILEWRIGHT_BINARY_DIR
                    "/tune-cli tune --dry-run --json -");
  EXPECT_EQ(piped.json()["results"].size(), 2u) << piped.err;
}

TEST_F(Settings, TablesFitTheUsualTerminal) {
  const std::string wide =
      " 'conv2d:n=1,h=14,w=14,ci=16,co=16,kernel=3,pad=1,epilogue=[bias,relu],layout=nchw' ";
  const Ran tuned = run("tune --trials 2 --threads 1 " + std::string(kSmall) + wide);
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  for (const Ran& ran : {tuned, run("best --threads 1"), run("best --config --threads 1"),
                         run("replay --threads 1 " + std::string(kSmall) + wide),
                         run("bench --rounds 1 --threads 1 " + std::string(kSmall) + wide)}) {
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
      if (line.find(": ") != std::string::npos) continue;  // of bench: what a peer ran
      EXPECT_LE(line.size(), 80u) << line;
    }
    EXPECT_THAT(ran.out, HasSubstr("layout=nchw"));
  }
  EXPECT_THAT(run("best --threads 1").out, Not(HasSubstr("{")));
  EXPECT_THAT(run("best --config --threads 1").out, HasSubstr("{"));
}

TEST_F(Settings, AReportHasANameByDefault) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 1 --threads 1 ") + kSmall).code, 0);
  const Ran ran = run("report");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("wrote tilewright-report.html"));
  EXPECT_TRUE(fs::exists(dir_ / "tilewright-report.html"));
}

}  // namespace
}  // namespace tilewright::cli
