#include "ggml_backend/settings.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tilewright::ggml {
namespace {

constexpr std::string_view kNames = "specs, threads, rows, trial, tolerance, trust";

[[noreturn]] void refuse(std::string_view name, std::string_view value,
                         const std::string& expected) {
  throw SettingsError("TILEWRIGHT_GGML: " + std::string(name) + " is '" + std::string(value) +
                      "'; expected " + expected);
}

template <class Number>
Number number_of(std::string_view name, std::string_view value, Number least, Number most) {
  Number number{};
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() ||
      !(number >= least && number <= most)) {
    refuse(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

void set(Settings& settings, std::string_view name, std::string_view value) {
  if (name == "specs") {
    settings.specs = value;
  } else if (name == "threads") {
    settings.threads = number_of(name, value, 1, 1024);
  } else if (name == "rows") {
    settings.rows = number_of<int64_t>(name, value, 16, 4096);
    if (settings.rows % 16 != 0) refuse(name, value, "a multiple of 16");
  } else if (name == "trial") {
    settings.trial = number_of(name, value, 0, 1) == 1;
  } else if (name == "tolerance") {
    settings.tolerance = number_of(name, value, 0.0, 1.0);
  } else if (name == "trust") {
    settings.trust.emplace_back(value);
  } else {
    throw SettingsError("TILEWRIGHT_GGML: there is no '" + std::string(name) + "'; there are " +
                        std::string(kNames));
  }
}

int processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return std::max(1, CPU_COUNT(&allowed));
}

}  // namespace

Settings read_settings(const char* database, const char* text) {
  Settings settings;
  settings.threads = processors();
  if (database != nullptr && *database != '\0') settings.database = database;
  std::string_view rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw SettingsError("TILEWRIGHT_GGML: '" + std::string(item) +
                          "' is no NAME=VALUE; names are " + std::string(kNames));
    }
    set(settings, item.substr(0, equals), item.substr(equals + 1));
  }
  return settings;
}

void say(ggml_log_level level, const std::string& line) {
  ggml_log_callback log = nullptr;
  void* user = nullptr;
  ggml_log_get(&log, &user);
  if (log != nullptr) log(level, ("Tilewright: " + line + "\n").c_str(), user);
}

}  // namespace tilewright::ggml
