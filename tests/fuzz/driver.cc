// The main program of a fuzz target. It runs the target's inputs, a corpus and seeded mutations of
// both. When built with libFuzzer it passes the same inputs to libFuzzer, which looks for new
// paths.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutate.h"

#ifdef TILEWRIGHT_LIBFUZZER
extern "C" int LLVMFuzzerRunDriver(int* argc, char*** argv,
                                   int (*one_input)(const uint8_t* data, size_t size));
#endif

// Sanitizers end with SIGABRT, so that the input is saved.
extern "C" const char* __asan_default_options() { return "abort_on_error=1:detect_leaks=0"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace tilewright::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "usage: {} [--runs N] [--first I] [--seconds S] [--seed SEED] [--corpus DIR] [--failures DIR]\n"
    "       {} FILE...\n"
    "\n"
    "Hands a parser its own inputs, those of the corpus and N mutations of them (10000), numbers "
    "I\n"
    "(0) and following, as long as S seconds allow. A failing input is written into the folder of\n"
    "failures (here), and the command that reproduces it printed. With files: hands it those.\n";
constexpr unsigned kInputSeconds = 30;  // far more than any input takes
constexpr rlim_t kMemory = rlim_t{4} << 30;

struct Options {
  uint64_t runs = 10'000, first = 0, seed = 1;
  double seconds = 1e9;
  std::string corpus, failures = ".";
  std::vector<std::string> files;
};

// The input that the parser is processing, for the failure report.
struct Current {
  const char* program = "";
  const char* bytes = nullptr;
  size_t size = 0;
  char file[4096] = "";
} current;

void print(const char* text) { (void)!write(STDERR_FILENO, text, std::strlen(text)); }

// Saves the input and prints how to run it again. Calls nothing that a fault could have broken.
void on_failure(int signal) {
  print(signal == SIGALRM ? "FAILED: an input takes too long\n" : "FAILED\n");
  FILE* file = fopen(current.file, "wb");
  if (file) {
    fwrite(current.bytes, 1, current.size, file);
    fclose(file);
  }
  for (const char* part :
       {"reproduce: ", current.program, " ", static_cast<const char*>(current.file), "\n"})
    print(part);
  _exit(1);
}

void catch_failures() {
  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_failure;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) {
    sigaction(signal, &action, nullptr);
  }
}

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rlimit limit{kMemory, kMemory};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> inputs_of(const Options& options) {
  std::vector<std::string> inputs = seed_inputs();
  if (options.corpus.empty() || !fs::is_directory(options.corpus)) return inputs;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(options.corpus)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) inputs.push_back(read_file(file));
  return inputs;
}

void run_one(const std::string& input) {
  // A copy with its end at the end of its memory, so that reads beyond it are detected.
  std::vector<uint8_t> exact(input.begin(), input.end());
  current.bytes = reinterpret_cast<const char*>(exact.data());
  current.size = exact.size();
  alarm(kInputSeconds);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  alarm(0);
}

int run_files(const Options& options) {
  for (const std::string& file : options.files) {
    std::string input = read_file(file);
    std::snprintf(current.file, sizeof current.file, "%s.again", file.c_str());
    run_one(input);
  }
  fmt::print("{} executions, 0 failures\n", options.files.size());
  return 0;
}

int run_mutations(const Options& options) {
  const std::vector<std::string> inputs = inputs_of(options);
  const std::string name = fs::path(current.program).filename();
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  auto name_failure = [&](const std::string& which) {
    std::snprintf(current.file, sizeof current.file, "%s/%s-%s.input", options.failures.c_str(),
                  name.c_str(), which.c_str());
  };
  uint64_t done = 0;
  for (size_t i = 0; i < inputs.size(); ++i, ++done) {
    name_failure(fmt::format("own-{}", i));
    run_one(inputs[i]);
  }
  for (uint64_t i = 0; i < options.runs && seconds() < options.seconds; ++i, ++done) {
    name_failure(fmt::format("{}-{}", options.seed, options.first + i));
    run_one(mutated(inputs, options.seed, options.first + i));
  }
  fmt::print("{} executions, 0 failures, {:.0f} per second\n", done,
             static_cast<double>(done) / std::max(seconds(), 1e-3));
  return 0;
}

#ifdef TILEWRIGHT_LIBFUZZER
// libFuzzer saves new inputs in its first folder: the corpus, or a temporary one.
int run_libfuzzer(const Options& options) {
  std::string pattern = (fs::temp_directory_path() / "tilewright_fuzz_XXXXXX").string();
  const fs::path own = mkdtemp(pattern.data());
  const std::vector<std::string> inputs = inputs_of(options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::ofstream(own / std::to_string(i), std::ios::binary) << inputs[i];
  }
  std::vector<std::string> arguments = {
      current.program,
      fmt::format("-runs={}", options.runs),
      fmt::format("-seed={}", static_cast<uint32_t>(options.seed)),
      fmt::format("-artifact_prefix={}/", options.failures),
      fmt::format("-timeout={}", kInputSeconds),
      "-print_final_stats=1",
      "-close_fd_mask=1",
      "-rss_limit_mb=4096",
      "-max_len=16384"};
  if (options.seconds < 1e9) {
    arguments.push_back(fmt::format("-max_total_time={}", static_cast<int>(options.seconds)));
  }
  if (!options.corpus.empty()) {
    fs::create_directories(options.corpus);
    arguments.push_back(options.corpus);
  }
  arguments.push_back(own.string());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  char** list = pointers.data();
  // libFuzzer ends the process itself; the caller may remove the folder by its name.
  return LLVMFuzzerRunDriver(&count, &list, LLVMFuzzerTestOneInput);
}
#endif

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Stores the option's value; false when it is no number.
template <class T>
bool take(std::string_view text, T* out) {
  std::optional<T> value = number<T>(text);
  if (value) *out = *value;
  return value.has_value();
}

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (!name.starts_with("--")) {
      options.files.emplace_back(name);
      continue;
    }
    if (name == "--help" || ++i == argc) return std::nullopt;
    std::string_view value = argv[i];
    bool good = name == "--runs"      ? take(value, &options.runs)
                : name == "--first"   ? take(value, &options.first)
                : name == "--seed"    ? take(value, &options.seed)
                : name == "--seconds" ? take(value, &options.seconds)
                                      : name == "--corpus" || name == "--failures";
    if (name == "--corpus") options.corpus = value;
    if (name == "--failures") options.failures = value;
    if (!good) return std::nullopt;
  }
  return options;
}

}  // namespace

void require(bool condition, std::string_view message) {
  if (condition) return;
  fmt::print(stderr, "broken promise: {}\n", message);
  std::abort();
}

}  // namespace tilewright::fuzz

int main(int argc, char** argv) {
  using namespace tilewright::fuzz;
  std::optional<Options> options = parse_options(argc, argv);
  if (!options) {
    fmt::print(stderr, fmt::runtime(kUsage), argv[0], argv[0]);
    return 2;
  }
  current.program = argv[0];
#ifdef TILEWRIGHT_LIBFUZZER
  if (options->files.empty()) return run_libfuzzer(*options);
#endif
  catch_failures();
  limit_memory();
  return options->files.empty() ? run_mutations(*options) : run_files(*options);
}
