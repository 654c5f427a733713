#include "base/knobs.h"

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "base/error.h"

namespace tilewright {
namespace {

#ifdef NDEBUG
constexpr std::string_view kVerifyByDefault = "0";
#else
constexpr std::string_view kVerifyByDefault = "1";
#endif

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") return true;
  if (text == "0" || text == "false" || text == "no" || text == "off") return false;
  return std::nullopt;
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    size_t bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    choices = bar == std::string_view::npos ? std::string_view() : choices.substr(bar + 1);
  }
  return false;
}

// Warns once per knob and process, whichever thread reads the knob first.
void warn_once(const KnobInfo& knob, const std::string& problem) {
  static std::atomic<uint64_t> warned{0};
  uint64_t bit = uint64_t{1} << static_cast<int>(knob.knob);
  if (warned.fetch_or(bit) & bit) return;
  std::fprintf(stderr, "warning: %s\n", problem.c_str());
}

std::string value_of(const KnobInfo& knob) {
  const char* text = std::getenv(std::string(knob.name).c_str());
  if (text == nullptr || *text == '\0') return std::string(knob.default_text);
  std::string problem = knob_problem(knob, text);
  if (problem.empty()) return text;
  const std::string standing(knob.default_text.empty() ? "the default" : knob.default_text);
  warn_once(knob, problem + "; using " + standing);
  return std::string(knob.default_text);
}

}  // namespace

const std::vector<KnobInfo>& knobs() {
  static const std::vector<KnobInfo> table = {
      {Knob::Cc, "TILEWRIGHT_CC", KnobKind::Text, "cc", "the C compiler of CPU kernels"},
      {Knob::Cache, "TILEWRIGHT_CACHE", KnobKind::Text, "",
       "directory for compiled kernels and machine measurements (default: "
       "$XDG_CACHE_HOME/tilewright, else ~/.cache/tilewright); \"off\" keeps nothing"},
      {Knob::CacheLimitMb, "TILEWRIGHT_CACHE_LIMIT_MB", KnobKind::Integer, "512",
       "size limit of the cache in MB; the oldest kernels are deleted first", 1, 1 << 20},
      {Knob::CompileTimeout, "TILEWRIGHT_COMPILE_TIMEOUT", KnobKind::Integer, "60",
       "time limit of a compilation in seconds", 1, 3600},
      {Knob::Pin, "TILEWRIGHT_PIN", KnobKind::Boolean, "1",
       "whether the threads of the pool are pinned to cores"},
      {Knob::SpinMicroseconds, "TILEWRIGHT_SPIN_US", KnobKind::Integer, "40",
       "microseconds that an idle thread of the pool spins before it sleeps", 0, 1000000},
      {Knob::Log, "TILEWRIGHT_LOG", KnobKind::Choice, "info", "log level on standard error", 0, 0,
       "trace|debug|info|warn|error|off"},
      {Knob::Verify, "TILEWRIGHT_VERIFY", KnobKind::Boolean, kVerifyByDefault,
       "whether the program is verified after each step of a schedule"},
      {Knob::PerfMap, "TILEWRIGHT_PERF_MAP", KnobKind::Boolean, "0",
       "whether /tmp/perf-PID.map names the kernels of serving files and models for perf"},
      {Knob::Peers, "TILEWRIGHT_PEERS", KnobKind::Text, "",
       "folders of baseline plugins for bench, separated by ':', searched before the program's "
       "own"},
      {Knob::CpuWithout, "TILEWRIGHT_CPU_WITHOUT", KnobKind::Text, "",
       "processor features that must not be used, separated by ','; a prefix such as avx512 names "
       "several"},
      {Knob::Cxx, "TILEWRIGHT_CXX", KnobKind::Text, "c++",
       "the C++ compiler of emulated CUDA kernels"},
      {Knob::Cuda, "TILEWRIGHT_CUDA", KnobKind::Text, "",
       "folder of the CUDA toolkit (default: the usual places, then ~/.cache/tilewright/cuda); "
       "\"off\" uses none"},
      {Knob::CudaDriver, "TILEWRIGHT_CUDA_DRIVER", KnobKind::Text, "",
       "library of the CUDA driver (default: libcuda.so.1 where the loader finds it)"},
      {Knob::CudaWatchdog, "TILEWRIGHT_CUDA_WATCHDOG", KnobKind::Integer, "0",
       "milliseconds after which a compiled kernel that waits at an mbarrier traps; 0: it waits on",
       0, 60000},
      {Knob::CudaMacros, "TILEWRIGHT_CUDA_MACROS", KnobKind::Text, "",
       "other barriers for compiled kernels, to compare them, with commas: TW_CLUSTER_SCOPE, "
       "arrivals of the cluster's scope; TW_SPIN_WAIT, waits that do not suspend the thread"},
      {Knob::Sandbox, "TILEWRIGHT_SANDBOX", KnobKind::Boolean, "1",
       "whether processes that run kernels are confined by a seccomp filter; off for debuggers"},
      {Knob::Db, "TILEWRIGHT_DB", KnobKind::Text, "tilewright.db", "default of --db"},
      {Knob::Config, "TILEWRIGHT_CONFIG", KnobKind::Text, "",
       "file with defaults of options (default: $XDG_CONFIG_HOME/tilewright/config.toml, else "
       "~/.config/tilewright/config.toml); \"off\" reads none"},
      {Knob::NoColor, "NO_COLOR", KnobKind::Text, "", "any value: messages without colors"},
  };
  return table;
}

const KnobInfo& info(Knob knob) {
  const KnobInfo& found = knobs().at(static_cast<size_t>(knob));
  TW_ASSERT(found.knob == knob, "the table of knobs stands in the order of the enumeration");
  return found;
}

std::string knob_syntax(const KnobInfo& knob) {
  switch (knob.kind) {
    case KnobKind::Text: return "text";
    case KnobKind::Integer:
      return "an integer from " + std::to_string(knob.min) + " to " + std::to_string(knob.max);
    case KnobKind::Boolean: return "1, true, yes, on or 0, false, no, off";
    case KnobKind::Choice: return "one of " + std::string(knob.choices);
  }
  return {};
}

std::string knob_problem(const KnobInfo& knob, std::string_view text) {
  bool good = true;
  switch (knob.kind) {
    case KnobKind::Text: break;
    case KnobKind::Integer: {
      std::optional<int64_t> value = parse_integer(text);
      good = value && *value >= knob.min && *value <= knob.max;
      break;
    }
    case KnobKind::Boolean: good = parse_boolean(text).has_value(); break;
    case KnobKind::Choice: good = is_choice(knob.choices, text); break;
  }
  if (good) return {};
  return std::string(knob.name) + "=" + std::string(text) + ": expected " + knob_syntax(knob);
}

void warn_of_knob(Knob knob, const std::string& problem) {
  const KnobInfo& k = info(knob);
  warn_once(k, std::string(k.name) + "=" + value_of(k) + ": " + problem);
}

std::string knob_text(Knob knob) {
  const KnobInfo& k = info(knob);
  TW_ASSERT(k.kind == KnobKind::Text || k.kind == KnobKind::Choice, std::string(k.name));
  return value_of(k);
}

int64_t knob_integer(Knob knob) {
  const KnobInfo& k = info(knob);
  TW_ASSERT(k.kind == KnobKind::Integer, std::string(k.name));
  return *parse_integer(value_of(k));
}

bool knob_boolean(Knob knob) {
  const KnobInfo& k = info(knob);
  TW_ASSERT(k.kind == KnobKind::Boolean, std::string(k.name));
  return *parse_boolean(value_of(k));
}

}  // namespace tilewright
