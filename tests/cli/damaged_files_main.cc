// Damages databases and gives each to every command and to the serving library:
//   damaged_files [COUNT [FIRST_SEED]] [--keep FOLDER]
//
// Each file is a sound database with tuned integer kernels and a damage that follows from its seed. A
// command must end with a documented exit code, a kernel that runs must give the right integers, and
// the library must refuse with an error or compute them. Ends with 1 when one does not, prints its
// seed, and keeps the damaged file. Commands run in forked children of this process, which spares
// them the program's start; "job-worker" as first word serves jobs as in tune-cli.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>

#include "cli/command.h"
#include "runtime/tensor/array.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/damaged_files.h"

namespace tilewright::damaged {
namespace {

constexpr unsigned kSeconds = 60;
// Done, an operand's file that is not there, a database's trouble, the budget's end, a miss.
const std::set<int> kExitCodes = {0, 2, 5, 6, 7};

struct Command {
  std::string
      words;        // {db}: the damaged file; {copy}: one of it; {dir}: a folder of the case's own
  uint64_t of = 1;  // the command gets one of so many files
};

// {m}: the first spec; {s}: all specs.
const std::vector<Command> kCommands = {
    {"best --db {db} --json"},
    {"best --db {db} --all"},
    {"replay --db {db} --threads 1 --json {s}"},
    {"run --db {db} --threads 1 --in A={dir}/a.npy --in B={dir}/b.npy --out C={dir}/c.npy {m}"},
    {"show --db {db} --threads 1 --source {m}"},
    {"explain --db {db} --threads 1 {s}"},
    {"export --db {db} --threads 1 -o {dir}/kernels {s}"},
    {"report --db {db} -o {dir}/report.html"},
    {"db info --db {db}"},
    {"db check --db {db}"},
    {"db export --db {db} {dir}/rows.jsonl"},
    {"db export --db {db} --serve {dir}/serve.db"},
    {"db merge --db {dir}/fresh.db {db}"},
    {"db import --db {dir}/imported.db {dir}/rows.jsonl"},
    {"db keygen {dir}/sign.key"},
    {"db sign --db {copy} --key {dir}/sign.key"},
    {"db train --db {copy}"},
    {"db prune --db {copy} --drop-damaged"},
    {"bench --db {db} --threads 1 --rounds 1 {m}", 25},
    {"tune --db {copy} --threads 1 --trials 2 --quiet {m}", 25},
    {"tune --db {copy} --threads 1 --trials 6 --resume --quiet {m}", 50},
    {"db merge --rebuild --db {dir}/fresh.db", 50},
};

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Ended {
  int code = 0, signal = 0;
  std::string err;
};

// Runs `body` in a child process whose output goes to files in `folder`.
Ended in_child(const fs::path& folder, const std::function<int()>& body) {
  const fs::path out = folder / "stdout", err = folder / "stderr";
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto redirect = [](const fs::path& to, int end) {
      dup2(open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), end);
    };
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    alarm(kSeconds);
    std::exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          read(err)};
}

int run_command(const std::string& command) {
  std::vector<std::string> words = {"tune-cli"};
  for (size_t begin = 0; begin < command.size();) {
    const size_t end = std::min(command.find(' ', begin), command.size());
    words.push_back(command.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  return cli::run(static_cast<int>(words.size()), argv.data());
}

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "tw_damaged_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

template <class T>
void write_matrix(const fs::path& path, const char* name, ElemType elem,
                  const std::vector<int64_t>& shape, const std::vector<T>& values) {
  HostArray array(name, elem, shape);
  for (size_t i = 0; i < values.size(); ++i) array.set(static_cast<int64_t>(i), values[i]);
  write_npy(path.string(), array);
}

// The sound database: kernels, a dispatch table, a cost model and a signature.
std::string tuned_database() {
  const TempFolder folder;
  const std::string db = (folder.path() / "whole.db").string();
  const std::string key = (folder.path() / "a.key").string();
  for (const std::string& command :
       {fmt::format("tune --quiet --db {} --threads 1 --trials 4 {}", db, fmt::join(kSpecs, " ")),
        fmt::format("db train --db {}", db), "db keygen " + key,
        fmt::format("db sign --db {} --key {}", db, key)}) {
    const Ended ended = in_child(folder.path(), [&] { return run_command(command); });
    if (ended.code == 0 && ended.signal == 0) continue;
    fmt::print(stderr, "damaged_files: {}: {}\n", command, ended.err);
    std::exit(1);
  }
  return read(db);
}

class Campaign {
 public:
  Campaign(std::string whole, fs::path keep) : whole_(std::move(whole)), keep_(std::move(keep)) {}

  void try_file(uint64_t seed) {
    const TempFolder folder;
    Draw draw(seed);
    const fs::path db = folder.path() / "a.db", copy = folder.path() / "copy.db";
    const std::string kind = damage(whole_, db, draw);
    ++kinds_[kind];
    const Integers integers(seed);
    write_matrix(folder.path() / "a.npy", "A", ElemType::i8, {12, 24}, integers.a);
    write_matrix(folder.path() / "b.npy", "B", ElemType::i8, {24, 16}, integers.b);
    write_matrix(folder.path() / "right.npy", "C", ElemType::i32, {12, 16}, integers.c);
    problems_ = 0;
    for (const Command& command : kCommands) {
      if (command.of > 1 && draw.below(command.of) != 0) continue;
      const std::string words =
          fmt::format(fmt::runtime(command.words), fmt::arg("db", db.string()),
                      fmt::arg("copy", copy.string()), fmt::arg("dir", folder.path().string()),
                      fmt::arg("m", kSpecs[0]), fmt::arg("s", fmt::join(kSpecs, " ")));
      if (words.find(copy.string()) != std::string::npos) {
        fs::copy_file(db, copy, fs::copy_options::overwrite_existing);
      }
      const Ended ended = in_child(folder.path(), [&] { return run_command(words); });
      count(command.words.substr(0, command.words.find(" --")), ended);
      judge(seed, words, problem_of(command, ended, folder.path()));
    }
    const Ended ended = in_child(folder.path(), [&] {
      const std::string problem = use_library(db.string(), seed);
      fmt::print(stderr, "{}", problem);
      return problem.empty() ? 0 : 3;
    });
    count("library", ended);
    judge(seed, "library", problem_of({"library"}, ended, folder.path()));
    if (problems_ == 0) return;
    ++failures_;
    fs::create_directories(keep_);
    fs::copy_file(db, keep_ / fmt::format("{}.db", seed), fs::copy_options::overwrite_existing);
  }

  int report(uint64_t count) const {
    for (const auto& [kind, number] : kinds_) fmt::print("{:10} {}\n", kind, number);
    for (const auto& [command, codes] : codes_) {
      fmt::print("{:12} exit codes {}\n", command, fmt::join(codes, ", "));
    }
    fmt::print("{} databases, {} runs, {} failures\n", count, runs_, failures_);
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void count(const std::string& command, const Ended& ended) {
    ++runs_;
    ++codes_[command][ended.code];
  }

  void judge(uint64_t seed, const std::string& words, const std::string& problem) {
    if (problem.empty()) return;
    ++problems_;
    fmt::print("damaged_files 1 {}: {}: {}\n", seed, words, problem);
    std::fflush(stdout);
  }

  static std::string problem_of(const Command& command, const Ended& ended,
                                const fs::path& folder) {
    const std::string tail =
        ended.err.size() > 500 ? ended.err.substr(ended.err.size() - 500) : ended.err;
    if (ended.signal == SIGALRM) return fmt::format("still running after {} s", kSeconds);
    if (ended.signal != 0) return fmt::format("{}: {}", strsignal(ended.signal), tail);
    if (!kExitCodes.contains(ended.code)) return fmt::format("exit code {}: {}", ended.code, tail);
    for (const char* sign : {"worker died", "signal", "internal fault"}) {
      if (ended.err.find(sign) != std::string::npos) return tail;
    }
    if (command.words.starts_with("run ") && ended.code == 0 &&
        read(folder / "c.npy") != read(folder / "right.npy")) {
      return "wrong integers";
    }
    return "";
  }

  std::string whole_;
  fs::path keep_;
  std::map<std::string, int> kinds_;
  std::map<std::string, std::map<int, int>> codes_;
  int problems_ = 0, failures_ = 0;
  uint64_t runs_ = 0;
};

}  // namespace
}  // namespace tilewright::damaged

int main(int argc, char** argv) {
  using namespace tilewright;
  if (argc > 1 && std::strcmp(argv[1], "job-worker") == 0) return cli::run(argc, argv);
  std::vector<std::string> numbers;
  std::string keep = "damaged";
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--keep") == 0 && i + 1 < argc) {
      keep = argv[++i];
    } else {
      numbers.emplace_back(argv[i]);
    }
  }
  const uint64_t count = numbers.empty() ? 100 : std::strtoull(numbers[0].c_str(), nullptr, 10);
  const uint64_t first = numbers.size() < 2 ? 1 : std::strtoull(numbers[1].c_str(), nullptr, 10);
  damaged::Campaign campaign(damaged::tuned_database(), keep);
  for (uint64_t seed = first; seed < first + count; ++seed) campaign.try_file(seed);
  return campaign.report(count);
}
