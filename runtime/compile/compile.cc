#include "runtime/compile/compile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/files.h"
#include "base/knobs.h"
#include "runtime/compile/private_folder.h"
#include "runtime/compile/process.h"
#include "runtime/error.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

// Chosen by measurement on small kernels, where cc1 alone takes 50 of 60 ms: a pipe to the
// assembler and no start files, linker plugin, unwind tables or build id save about a tenth of the
// rest. libm stays reachable for what a kernel may call; signed zeros, NaNs and the order of sums
// keep their meaning (no -ffast-math).
const std::vector<std::string> kFlags = {"-O3",
                                         "-shared",
                                         "-fPIC",
                                         "-pipe",
                                         "-nostartfiles",
                                         "-fno-use-linker-plugin",
                                         "-fno-split-loops",
                                         "-fno-asynchronous-unwind-tables",
                                         "-fno-math-errno",
                                         "-fno-trapping-math",
                                         "-fno-semantic-interposition",
                                         "-fvisibility=default",
                                         "-w",
                                         "-Wl,--build-id=none"};
// clang knows no linker plugin switch, and splits no loops: lowering has parted them where conditions
// change, and looking for more takes GCC up to half of its time on kernels with many edges.
const std::vector<std::string> kGccOnly = {"-fno-use-linker-plugin", "-fno-split-loops"};

constexpr size_t kMessageLimit = 4000;
constexpr int kPruneEvery = 256;  // compilations of this process
constexpr off_t kProbeBytes = 1 << 20;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

// The differences between the languages.
struct LanguageTools {
  Knob compiler;
  const char *name, *standard, *option, *package;
};

const LanguageTools& tools_of(SourceLanguage language) {
  static const LanguageTools c = {Knob::Cc, "C", "-std=gnu11", "c", "gcc"};
  static const LanguageTools cxx = {Knob::Cxx, "C++", "-std=gnu++17", "c++", "g++"};
  return language == SourceLanguage::C ? c : cxx;
}

std::string chosen_compiler(const std::string& compiler, SourceLanguage language) {
  return compiler.empty() ? knob_text(tools_of(language).compiler) : compiler;
}

// Words of "ccache gcc" or "/path/gcc -m64".
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  size_t at = 0;
  while ((at = text.find_first_not_of(' ', at)) != std::string::npos) {
    size_t end = text.find(' ', at);
    list.push_back(text.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end;
  }
  return list;
}

bool is_clang(const std::string& identity) { return identity.find("clang") != std::string::npos; }

std::vector<std::string> base_command(const KernelSource& source, const std::string& compiler) {
  std::vector<std::string> command = words(compiler);
  bool clang = is_clang(compiler_identity(compiler, source.language));
  command.push_back(tools_of(source.language).standard);
  for (const std::string& flag : kFlags) {
    bool skip = clang && std::find(kGccOnly.begin(), kGccOnly.end(), flag) != kGccOnly.end();
    if (!skip) command.push_back(flag);
  }
  command.insert(command.end(), source.flags.begin(), source.flags.end());
  return command;
}

std::string shorten(const std::string& text) {
  if (text.size() <= kMessageLimit) return text;
  return text.substr(0, kMessageLimit) + "\n… (" + std::to_string(text.size()) + " bytes in all)";
}

// Why the compiler cannot have written what it had to: the words that it has for a full disk, or
// what keeps a file of a kernel's size from being written now. Empty when neither is the case, and
// the fault is the source's.
std::string disk_problem(const std::string& said) {
  for (int error : {ENOSPC, EDQUOT}) {
    if (said.find(std::strerror(error)) != std::string::npos) return std::strerror(error);
  }
  std::string path = private_path(".probe");
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return std::strerror(errno);
  unlink(path.c_str());
  int error = posix_fallocate(fd.get(), 0, kProbeBytes);
  return error == ENOSPC || error == EDQUOT ? std::strerror(error) : "";
}

// Runs the command on the source; throws when it fails. The output is gone then.
void run_compiler(const std::vector<std::string>& command, const std::string& code,
                  const std::string& output, double timeout_seconds) {
  // Its own temporary files lie beside the output, where they go with it.
  ProcessResult r = run_process(command, code, timeout_seconds, {"TMPDIR=" + private_folder()});
  if (r.ok()) return;
  unlink(output.c_str());
  if (!r.started) throw ToolchainError("compiler " + r.error);
  if (std::string problem = r.timed_out ? "" : disk_problem(r.err); !problem.empty()) {
    throw ToolchainError(fmt::format(
        "{} cannot write to the temporary directory '{}': {}; make room, or name another in TMPDIR",
        command[0], temporary_directory(), problem));
  }
  throw CompileError(fmt::format("{}: {}\n{}", command[0], r.outcome(), shorten(r.err)));
}

// The compiler's output file; throws when it is empty although the compiler reported success.
std::string take_output(const std::string& output, const std::string& compiler) {
  std::optional<std::string> bytes = read_file(output);
  unlink(output.c_str());
  if (bytes && !bytes->empty()) return std::move(*bytes);
  throw CompileError(fmt::format("{}: exit code 0, but it wrote {}", compiler,
                                 bytes ? "an empty output" : "no output"));
}

double timeout_of(const CompileOptions& options) {
  return options.timeout_seconds > 0 ? options.timeout_seconds
                                     : static_cast<double>(knob_integer(Knob::CompileTimeout));
}

// Two independent 64-bit halves: the key decides alone, without a look at the source again.
std::string cache_key(const std::vector<std::string>& command, const std::string& identity,
                      const std::string& code) {
  std::string text = identity;
  for (const std::string& word : command) text += '\0' + word;
  text += '\0' + code;
  XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return hex(h.high64) + hex(h.low64);
}

// An object in the cache carries its own checksum behind its bytes (loaders ignore what
// follows), so a damaged or cut-off file is a miss and not a crash.
std::string with_checksum(const std::string& object) {
  return object + "TWC1" + hex(XXH3_64bits(object.data(), object.size()));
}

std::optional<std::string> without_checksum(std::string bytes) {
  constexpr size_t kTrailer = 20;
  if (bytes.size() < kTrailer) return std::nullopt;
  std::string trailer = bytes.substr(bytes.size() - kTrailer);
  bytes.resize(bytes.size() - kTrailer);
  if (trailer != "TWC1" + hex(XXH3_64bits(bytes.data(), bytes.size()))) return std::nullopt;
  return bytes;
}

// Where the cache would keep the object of this source; empty when there is no cache.
std::string cache_path(const KernelSource& source, const std::string& compiler,
                       const std::string& identity) {
  std::optional<std::string> directory = cache_directory();
  if (!directory) return "";
  std::string kernels = *directory + "/kernels";
  if (!own_directory(kernels)) return "";
  return kernels + "/" + cache_key(compile_command(source, compiler, ""), identity, source.code) +
         ".so";
}

std::string build_object(const KernelSource& source, const std::string& compiler, double timeout) {
  std::string output = private_path(".so");
  run_compiler(compile_command(source, compiler, output), source.code, output, timeout);
  return take_output(output, compiler);
}

void prune_now_and_then() {
  static std::atomic<int> compilations{0};
  if (compilations.fetch_add(1) % kPruneEvery == kPruneEvery - 1) {
    prune_compile_cache(knob_integer(Knob::CacheLimitMb) << 20);
  }
}

}  // namespace

std::string compiler_identity(const std::string& name, SourceLanguage language) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const LanguageTools& tools = tools_of(language);
  std::string knob(info(tools.compiler).name);
  std::string compiler = chosen_compiler(name, language);
  std::lock_guard lock(mutex);
  if (auto found = known.find(compiler); found != known.end()) return found->second;
  std::vector<std::string> command = words(compiler);
  if (command.empty()) throw ToolchainError("compiler: its name is blank (" + knob + ")");
  command.push_back("--version");
  ProcessResult r = run_process(command, "", 30);
  if (!r.ok() || r.out.empty()) {
    throw ToolchainError(fmt::format(
        "no working {} compiler: '{}' --version: {}; install {} or name one in {}", tools.name,
        compiler, r.ok() ? "said nothing" : r.outcome(), tools.package, knob));
  }
  return known[compiler] = r.out.substr(0, r.out.find('\n'));
}

std::vector<std::string> compile_command(const KernelSource& source, const std::string& compiler,
                                         const std::string& output) {
  std::vector<std::string> command =
      base_command(source, chosen_compiler(compiler, source.language));
  command.insert(command.end(), {"-x", tools_of(source.language).option, "-", "-lm", "-o", output});
  return command;
}

CompiledObject compile(const KernelSource& source, const CompileOptions& options) {
  auto start = std::chrono::steady_clock::now();
  std::string compiler = chosen_compiler(options.compiler, source.language);
  CompiledObject result;
  result.compiler = compiler_identity(compiler, source.language);
  std::string path = options.use_cache ? cache_path(source, compiler, result.compiler) : "";
  std::optional<std::string> object = path.empty() ? std::nullopt : read_cached_object(path);
  result.cached = object.has_value();
  if (object) {
    result.path = path;
  } else {
    object = build_object(source, compiler, timeout_of(options));
    if (!path.empty() && write_file_atomic(path, with_checksum(*object))) result.path = path;
    prune_now_and_then();
  }
  result.object = std::move(*object);
  result.hash = hex(XXH3_64bits(result.object.data(), result.object.size()));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::optional<std::string> read_cached_object(const std::string& path) {
  std::optional<std::string> bytes = read_own_file(path);
  if (!bytes) return std::nullopt;
  std::optional<std::string> object = without_checksum(std::move(*bytes));
  std::error_code ignored;  // the time of use only guides what is dropped first
  if (object) fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return object;
}

std::string compile_to_assembly(const KernelSource& source, const CompileOptions& options) {
  std::string compiler = chosen_compiler(options.compiler, source.language);
  std::vector<std::string> command = base_command(source, compiler);
  std::string output = private_path(".s");
  command.insert(command.end(), {"-S", "-x", tools_of(source.language).option, "-", "-o", output});
  run_compiler(command, source.code, output, timeout_of(options));
  return take_output(output, compiler);
}

void prune_compile_cache(int64_t max_bytes) {
  std::optional<std::string> directory = cache_directory();
  if (!directory) return;
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& e : fs::directory_iterator(*directory + "/kernels", error)) {
    std::error_code gone;
    Entry entry{e.last_write_time(gone), static_cast<int64_t>(e.file_size(gone)), e.path()};
    if (gone) continue;
    total += entry.bytes;
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& e : entries) {
    if (total <= max_bytes) break;
    if (fs::remove(e.path, error)) total -= e.bytes;
  }
}

}  // namespace tilewright
