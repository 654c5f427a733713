// The only registry of environment variables. Each is declared once, with its default and a
// description; `tune-cli` lists them. An invalid value is reported once on standard error, with the
// accepted syntax, and the default replaces it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

enum class Knob : uint8_t {
  Cc,
  Cache,
  CacheLimitMb,
  CompileTimeout,
  Pin,
  SpinMicroseconds,
  Log,
  Verify,
  PerfMap,
  Peers,
  CpuWithout,
  Cxx,
  Cuda,
  CudaDriver,
  CudaWatchdog,
  CudaMacros,
  Sandbox,
  Db,
  Config,
  NoColor,
};

enum class KnobKind : uint8_t { Text, Integer, Boolean, Choice };

struct KnobInfo {
  Knob knob;
  std::string_view name;  // name of the environment variable
  KnobKind kind;
  std::string_view default_text;
  std::string_view description;
  int64_t min = 0, max = 0;       // for an integer
  std::string_view choices = {};  // for a choice: "a|b|c"
};

// Every knob, in the order of the enumeration.
const std::vector<KnobInfo>& knobs();
const KnobInfo& info(Knob knob);
// The accepted syntax of a value: "an integer from 1 to 600".
std::string knob_syntax(const KnobInfo& knob);
// The reason why `text` is no value of the knob, with the syntax; empty for a valid one.
std::string knob_problem(const KnobInfo& knob, std::string_view text);

// Reports once per process that the environment's value of the knob is not what its reader accepts, as
// for the invalid ones: "warning: NAME=VALUE: PROBLEM". `problem` says what is used.
void warn_of_knob(Knob knob, const std::string& problem);

// The value from the environment, read at each call, or the default when it is unset, empty or
// invalid. Each function requires a knob of its kind (Choice is text).
std::string knob_text(Knob knob);
int64_t knob_integer(Knob knob);
bool knob_boolean(Knob knob);

}  // namespace tilewright
