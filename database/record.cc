#include "database/record.h"

#include <array>
#include <utility>

#include "database/tables/checksum.h"
#include "database/target.h"

namespace tilewright::database {
namespace {

constexpr std::array<std::pair<Verdict, std::string_view>, 6> kVerdicts = {{
    {Verdict::Valid, "valid"},
    {Verdict::CompileError, "compile"},
    {Verdict::RuntimeError, "runtime"},
    {Verdict::Timeout, "timeout"},
    {Verdict::Wrong, "wrong"},
    {Verdict::Illegal, "illegal"},
}};

constexpr std::array<std::pair<RunState, std::string_view>, 4> kRunStates = {{
    {RunState::Running, "running"},
    {RunState::Interrupted, "interrupted"},
    {RunState::Finished, "finished"},
    {RunState::Failed, "failed"},
}};

template <class Names, class Key>
std::string_view name_of(const Names& names, Key key) {
  for (const auto& [value, name] : names) {
    if (value == key) return name;
  }
  return "unknown";
}

template <class Value, class Names>
std::optional<Value> value_of(const Names& names, std::string_view wanted) {
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) { return name_of(kVerdicts, verdict); }

std::optional<Verdict> verdict_from_name(std::string_view name) {
  return value_of<Verdict>(kVerdicts, name);
}

std::string_view run_state_name(RunState state) { return name_of(kRunStates, state); }

std::optional<RunState> run_state_from_name(std::string_view name) {
  return value_of<RunState>(kRunStates, name);
}

std::string threads_text(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

TargetIdentity make_target(std::string chip, std::string features, int cores,
                           const std::string& extra) {
  TargetIdentity target;
  target.canonical = "chip=" + chip_model(chip) + "\nfeatures=" + features +
                     "\ncores=" + std::to_string(cores) + "\n" + extra;
  target.hash = content_hash(target.canonical);
  target.chip = std::move(chip);
  target.features = std::move(features);
  target.cores = cores;
  return target;
}

}  // namespace tilewright::database
