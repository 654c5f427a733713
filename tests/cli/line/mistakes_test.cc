// Plausible mistakes at the command line: each message names the word, the place and the next step.
#include <gmock/gmock.h>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Mistake {
  const char* arguments;
  const char* word;
  const char* place;  // the command, the option, or file:line:column
  const char* next;   // what to do
  int code = 2;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << '"' << mistake.arguments << '"'; }

constexpr const char* kListsCommands = "'tune-cli help' lists the commands";
constexpr const char* kTuneHelp = "'tune-cli help tune' lists its options";

const Mistake kMistakes[] = {
    // Commands.
    {"", "expected a command: tune, best", "tune-cli:", kListsCommands},
    {"tunee matmul:m=8,n=8,k=8", "'tunee'", "unknown command", "did you mean 'tune'?"},
    {"tnue matmul:m=8,n=8,k=8", "'tnue'", "unknown command", "did you mean 'tune'?"},
    {"optimize matmul:m=8,n=8,k=8", "'optimize'", "unknown command", "did you mean 'tune'?"},
    {"benchmark matmul:m=8,n=8,k=8", "'benchmark'", "unknown command", "did you mean 'bench'?"},
    {"frobnicate", "'frobnicate'", "unknown command", kListsCommands},
    {"list", "'list'", "unknown command", "did you mean 'best'?"},
    {"merge other.db", "'merge'", "unknown command", "did you mean 'db merge'?"},
    {"matmul:m=8,n=8,k=8", "'matmul:m=8,n=8,k=8'", "is a spec, not a command",
     "tune-cli tune 'matmul:m=8,n=8,k=8'"},
    {"matmul", "'matmul'", "is an operator, not a command", "'tune-cli ops matmul' describes it"},
    {"specs.txt", "'specs.txt'", "is a file, not a command", "'tune-cli tune specs.txt'"},
    {"db inof", "'inof'", "db: unknown command", "did you mean 'info'?"},
    {"db", "info, check", "db: expected a command", "'tune-cli help db'"},
    {"db clean", "'clean'", "db: unknown command", "did you mean 'prune'?"},
    {"help tunee", "'tunee'", "help: unknown command", "did you mean 'tune'?"},
    {"ops matmull", "'matmull'", "ops: unknown operator", "did you mean 'matmul'?"},
    {"ops frob", "'frob'", "ops: unknown operator", "operators: matmul, "},
    // Options.
    {"tune --trails 5 matmul:m=8,n=8,k=8", "'--trails'", "tune: unknown option",
     "did you mean '--trials'?"},
    {"tune matmul:m=8,n=8,k=8 --trails=5", "'--trails=5'", "tune: unknown option",
     "did you mean '--trials'?"},
    {"tune -trials 5 matmul:m=8,n=8,k=8", "'-trials'", "tune: unknown option",
     "did you mean '--trials'?"},
    {"tune --iterations 5 matmul:m=8,n=8,k=8", "'--iterations'", "tune: unknown option",
     "did you mean '--trials'?"},
    {"tune --timeout 5m matmul:m=8,n=8,k=8", "'--timeout'", "tune: unknown option",
     "did you mean '--time'?"},
    {"tune --jobs 2 matmul:m=8,n=8,k=8", "'--jobs'", "tune: unknown option",
     "did you mean '--threads'?"},
    {"tune --continue matmul:m=8,n=8,k=8", "'--continue'", "tune: unknown option",
     "did you mean '--resume'?"},
    {"tune --dryrun matmul:m=8,n=8,k=8", "'--dryrun'", "tune: unknown option",
     "did you mean '--dry-run'?"},
    {"tune --frobnicate matmul:m=8,n=8,k=8", "'--frobnicate'", "tune: unknown option", kTuneHelp},
    {"replay --database x.db matmul:m=8,n=8,k=8", "'--database'", "replay: unknown option",
     "did you mean '--db'?"},
    {"replay --required matmul:m=8,n=8,k=8", "'--required'", "replay: unknown option",
     "did you mean '--require'?"},
    {"show --assembly matmul:m=8,n=8,k=8", "'--assembly'", "show: unknown option",
     "did you mean '--asm'?"},
    {"show --Source matmul:m=8,n=8,k=8", "'--Source'", "show: unknown option",
     "did you mean '--source'?"},
    {"db prune --keeep 2", "'--keeep'", "db prune: unknown option", "did you mean '--keep'?"},
    {"--db x.db tune matmul:m=8,n=8,k=8", "'--db'", "tune: '--db' stands before the command",
     "tune-cli tune --db"},
    {"targets all", "'all'", "targets: unexpected argument", "'tune-cli help targets'"},
    {"tune matmul:m=8,n=8,k=8 --trials", "--trials", "tune:", "expected a value of type"},
    {"tune matmul:m=8,n=8,k=8 --trials many", "many", "tune: --trials", kTuneHelp},
    {"tune matmul:m=8,n=8,k=8 --trials -5", "-5", "tune: --trials", "in range 0 to 10000000"},
    {"tune matmul:m=8,n=8,k=8 --seed x", "'x'", "tune: --seed", kTuneHelp},
    {"tune matmul:m=8,n=8,k=8 --time soon", "'soon'", "--time", "such as 90s, 10m, 2h or 1h30m"},
    {"tune matmul:m=8,n=8,k=8 --time 30m1h", "'30m1h'", "--time", "such as 90s, 10m, 2h or 1h30m"},
    {"tune matmul:m=8,n=8,k=8 --search genetic", "'genetic'", "--search",
     "expected steady, evolutionary, bayesian, bandit, annealing, descent or random"},
    {"tune matmul:m=8,n=8,k=8 --target avx1024", "'avx1024'", "target", "avx512"},
    {"tune", "spec", "tune: expected a spec", "'tune-cli ops' lists the operators"},
    {"weights", "file", "weights: expected the argument file", "'tune-cli help weights'"},
    {"completions tcsh", "tcsh", "completions: shell", "{bash,zsh,fish}"},
    {"replay matmul:m=1..8,n=8,k=8 --dim m=0", "m=0", "--dim", "from 1 to 8"},
    // Specs.
    {"tune matmull:m=8", "'matmull'", "matmull:m=8\n  ^", "did you mean 'matmul'?"},
    {"tune matmul:m=8,n=8,q=8", "'q'", "^", "keys of matmul: m, n, k"},
    {"tune matmul:m=8,n=8", "key k", "matmul:m=8,n=8\n  ^", "keys of matmul: m, n, k"},
    {"tune 'matmul:M=8,n=8,k=8'", "'M'", "^", "did you mean 'm'?"},
    {"tune matmul:m=8,n=8,k=8,dtype=f31", "'f31'", "dtype", "did you mean 'f32'?"},
    {"tune matmul:m=8,n=8,k=8,type=f32", "'type'", "^", "did you mean 'dtype'?"},
    {"tune matmul:m=8,n=8,k=-8", "'-8'", "k: expected", "a whole number from 1"},
    {"tune 'matmul:m=8;n=8;k=8'", "'8;n=8;k=8'", "m: expected a whole", "keys of matmul: m, n, k"},
    {"tune 'matmul m=8 n=8 k=8'", "'matmul m=8 n=8 k=8'", "^", "operators: matmul, "},
    {"tune conv2d:n=1,h=8,w=8,ci=4,co=4,kernel=3,padding=1", "'padding'", "^",
     "did you mean 'pad'?"},
    {"tune conv2d:n=1,h=8,w=8,in_channels=4,co=4,kernel=3", "'in_channels'", "^",
     "did you mean 'ci'?"},
    {"tune opertors.json", "opertors.json", "cannot be opened: No such file",
     "expected a file of specs, or a spec such as"},
    {"tune specs.txt", "'q'", "specs.txt:2:13", "keys of softmax: m, n"},
    {"tune other.db", "other.db", "a database, no file of specs", "'tune-cli best --db other.db'"},
    {"tune model.onnx", "model.onnx", "a model, no file of specs", "'tune-cli extract model.onnx"},
    {"run model.onnx", "model.onnx", "a model, no file of specs",
     "'tune-cli compile model.onnx -o model.tw' makes a model file"},
    {"explain model.onnx", "model.onnx", "a model, no file of specs",
     "'tune-cli compile model.onnx -o model.tw' makes a model file"},
    {"tune --db none/x.db matmul:m=8,n=8,k=8", "'none/x.db'", "there is no folder 'none'",
     "mkdir -p 'none' makes it", 5},
    {"tune matmul:m=99999999999,n=4,k=4", "m=99999999999", "its operands have 3200000000032 bytes",
     "a process that measures may take 4294967296"},
    {"tune model.gguf", "model.gguf", "a file of weights", "'tune-cli weights model.gguf'"},
    // Files.
    {"extract specs.txt", "specs.txt", "not an ONNX file", "expected"},
    {"extract model.gguf --nodes", "model.gguf", "not an ONNX file but a GGUF file",
     "'tune-cli weights model.gguf'"},
    {"weights specs.txt", "specs.txt", "not a safetensors or GGUF file", "expected"},
    {"weights model.onnx", "model.onnx", "not a safetensors or GGUF file",
     "'tune-cli extract model.onnx' reads ONNX models"},
    {"tune matmul:m=8,n=8,k=8 --config specs.txt", "specs.txt", "no JSON document",
     "'tune-cli show SPEC --config' prints one"},
    {"--settings none.toml tune matmul:m=8,n=8,k=8", "none.toml", "tune:", kTuneHelp},
    {"best --db missing.db", "'missing.db'", "there is no database",
     "'tune-cli tune SPEC --db FILE' makes one", 5},
    {"show --source matmul:m=8,n=8,k=8 --db other.db", "other.db", "database", "other.db", 5},
};

class Mistakes : public Cli, public testing::WithParamInterface<Mistake> {
 protected:
  void SetUp() override {
    Cli::SetUp();
    std::ofstream(dir_ / "specs.txt") << "softmax:m=4,n=8\nsoftmax:m=4,q=8\n";
    std::ofstream(dir_ / "other.db") << "SQLite format 3" << std::string(100, '\0');
    std::ofstream(dir_ / "model.gguf") << std::string("GGUF\3\0\0\0", 8);
    std::ofstream(dir_ / "model.onnx") << "\x99\x07\x12";
  }
};

TEST_P(Mistakes, NameTheWordThePlaceAndTheNextStep) {
  const Mistake& m = GetParam();
  const Ran ran = run(m.arguments);
  EXPECT_EQ(ran.code, m.code) << m.arguments << "\n" << ran.err;
  EXPECT_EQ(ran.out, "") << m.arguments;
  EXPECT_THAT(ran.err, testing::StartsWith("tune-cli: ")) << m.arguments;
  for (const char* part : {m.word, m.place, m.next}) {
    EXPECT_THAT(ran.err, HasSubstr(part)) << m.arguments;
  }
  EXPECT_FALSE(fs::exists(dir_ / "tilewright.db")) << "nothing is written";
}

INSTANTIATE_TEST_SUITE_P(Table, Mistakes, testing::ValuesIn(kMistakes));

static_assert(std::size(kMistakes) >= 60);

TEST_F(Mistakes, AreDocumentsWhereThoseWereAskedFor) {
  for (const char* arguments :
       {"tunee --json", "tune --json --trails 5 matmul:m=8,n=8,k=8", "tune matmull:m=8 --json",
        "extract specs.txt --json", "ops frob --json"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments;
    const Json error = ran.json()["error"];
    EXPECT_EQ(error["code"], 2) << arguments;
    EXPECT_EQ(error["kind"], "bad_usage") << arguments;
    EXPECT_EQ("tune-cli: " + error["message"].get<std::string>() + "\n", ran.err) << arguments;
  }
  const Json missing = run("best --json --db none.db").json()["error"];
  EXPECT_EQ(missing["code"], 5);
  EXPECT_EQ(missing["kind"], "database_trouble");
  ASSERT_EQ(run("tune --quiet --trials 1 --threads 1 matmul:m=2,n=2,k=2").code, 0);
  const Ran missed = run("show --config --json --threads 1 matmul:m=3,n=3,k=3");
  EXPECT_EQ(missed.code, 7);
  EXPECT_EQ(missed.json()["error"]["kind"], "required_missed");
  // A result is no error, whatever the exit code says of it: one document alone.
  const Ran required = run("replay --require --json --threads 1 matmul:m=3,n=3,k=3");
  EXPECT_EQ(required.code, 7);
  EXPECT_FALSE(required.json().contains("error"));
}

TEST_F(Mistakes, OfNamesThatAreNoneAreNotGuessed) {
  EXPECT_THAT(run("frobnicate").err, Not(HasSubstr("did you mean")));
  EXPECT_THAT(run("tune --frobnicate matmul:m=8,n=8,k=8").err, Not(HasSubstr("did you mean")));
}

}  // namespace
}  // namespace tilewright::cli
