#include "provider/options.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string_view>

namespace tilewright::provider {
namespace {

constexpr std::string_view kPrefix = "ep.tilewrightexecutionprovider.";
constexpr std::string_view kNames =
    "models, database, dump, alone, exclude, threads, instances, trial, trial_seconds, tolerance, "
    "fallback, trust";

[[noreturn]] void refuse(std::string_view name, std::string_view value,
                         const std::string& expected) {
  throw ProviderError("option " + std::string(name) + " is '" + std::string(value) +
                      "'; expected " + expected);
}

std::vector<std::string> list_of(std::string_view value) {
  std::vector<std::string> items;
  while (!value.empty()) {
    const size_t end = std::min(value.find(','), value.size());
    if (end > 0) items.emplace_back(value.substr(0, end));
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return items;
}

int count_of(std::string_view name, std::string_view value, int least, int most = 1024) {
  int count = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < least || count > most) {
    refuse(name, value, "a number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return count;
}

bool truth_of(std::string_view name, std::string_view value) {
  if (value != "0" && value != "1") refuse(name, value, "0 or 1");
  return value == "1";
}

double share_of(std::string_view name, std::string_view value) {
  double share = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), share);
  if (error != std::errc() || end != value.data() + value.size() || !(share > 0 && share < 1)) {
    refuse(name, value, "a number between 0 and 1");
  }
  return share;
}

void set_option(Options& options, std::string_view name, std::string_view value) {
  if (name == "models")
    options.models = value;
  else if (name == "database")
    options.database = value;
  else if (name == "dump")
    options.dump = value;
  else if (name == "alone")
    options.alone = truth_of(name, value);
  else if (name == "exclude")
    for (std::string& item : list_of(value)) options.excluded.insert(std::move(item));
  else if (name == "threads")
    options.threads = count_of(name, value, 0);
  else if (name == "instances")
    options.instances = count_of(name, value, 1);
  else if (name == "trial")
    options.trial = truth_of(name, value);
  else if (name == "trial_seconds")
    options.trial_seconds = count_of(name, value, 0, 3600);
  else if (name == "tolerance")
    options.tolerance = share_of(name, value);
  else if (name == "fallback")
    options.fallback = truth_of(name, value);
  else if (name == "trust")
    options.trust = list_of(value);
  else
    throw ProviderError("there is no option '" + std::string(name) + "'; there are " +
                        std::string(kNames));
}

}  // namespace

bool is_late(const Options& options) {
  return std::chrono::steady_clock::now() > options.trials_end;
}

std::string late_text(const Options& options) {
  return "the " + std::to_string(options.trial_seconds) + " s of the option trial_seconds are over";
}

int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Options read_options(const Runtime& runtime, const ort::SessionOptions* session) {
  Options options;
  OwnedPairs entries(runtime);
  runtime.checked<ort::GetConfigEntries>(session, entries.out());
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  runtime.plain<ort::GetPairs>(entries.get(), &keys, &values, &count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view key = keys[i];
    const std::string_view value = values[i] == nullptr ? "" : values[i];
    if (key.starts_with(kPrefix)) set_option(options, key.substr(kPrefix.size()), value);
    if (key == "ep.context_enable") options.writes_context = value == "1";
    if (key == "ep.context_file_path") options.context_path = value;
  }
  if (options.threads == 0) options.threads = processors();
  options.trials_end =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.trial_seconds);
  std::ifstream list(options.models + "/exclude");
  for (std::string line; std::getline(list, line);) {
    if (!line.empty()) options.excluded.insert(line);
  }
  return options;
}

}  // namespace tilewright::provider
