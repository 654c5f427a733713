#include "database/target.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace tilewright::database {
namespace {

std::set<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

bool includes(const std::set<std::string>& all, const std::set<std::string>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

// A CPU's text in the form of earlier versions: "target=avx512 l1=32768 l2=1048576 l3=33554432". Gives what
// stands before the shared cache; empty for any other text.
std::string without_shared_cache(const std::string& extra) {
  const size_t shared = extra.rfind(" l3=");
  const bool known = extra.starts_with("target=") && !extra.starts_with("target=cuda") &&
                     extra.find(" l2=") < shared && shared != std::string::npos &&
                     extra.find_first_not_of("0123456789", shared + 4) == std::string::npos;
  return known ? extra.substr(0, shared) : "";
}

// Instruction sets of a CPU in words.
std::string sets_text(const std::string& features) {
  return features.empty() ? "plain C" : features;
}

std::string say(const char* what, const std::string& theirs, const std::string& ours) {
  return std::string("tuned for ") + what + ": '" + theirs + "', this is '" + ours + "'";
}

// The last line of the canonical text: what is told besides chip, features and cores.
std::string extra_of(const TargetIdentity& target) {
  return target.canonical.substr(target.canonical.rfind('\n') + 1);
}

int distance(const TargetIdentity& stored, const TargetIdentity& here) {
  if (stored.hash == here.hash) return 0;
  const std::set<std::string> theirs = words(stored.features), ours = words(here.features);
  std::vector<std::string> unused;
  std::set_difference(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                      std::back_inserter(unused));
  const bool other_chip = chip_model(stored.chip) != chip_model(here.chip);
  return 4 * static_cast<int>(unused.size()) + 2 * (other_chip ? 1 : 0) + 1;
}

}  // namespace

std::string chip_model(const std::string& chip) {
  const size_t open = chip.rfind('(');
  const bool tells =
      open != std::string::npos && chip.ends_with(')') && chip.compare(open, 8, "(family ") == 0;
  return tells ? chip.substr(open + 1, chip.size() - open - 2) : chip;
}

TargetIdentity identity_today(TargetIdentity stored) {
  const std::string extra = without_shared_cache(extra_of(stored));
  if (extra.empty()) return stored;
  return make_target(std::move(stored.chip), std::move(stored.features), 0, extra);
}

bool may_serve(const TargetIdentity& stored, const TargetIdentity& here) {
  if (stored.features == here.features) return true;
  const bool of_gpu = stored.features.starts_with("sm_") || here.features.starts_with("sm_");
  return !of_gpu && includes(words(here.features), words(stored.features));
}

std::string target_difference(const TargetIdentity& stored, const TargetIdentity& here) {
  if (stored.hash == here.hash) return "";
  if (chip_model(stored.chip) != chip_model(here.chip)) {
    return say("another chip", stored.chip, here.chip);
  }
  if (stored.features != here.features) {
    return say("other instruction sets", sets_text(stored.features), sets_text(here.features));
  }
  if (stored.cores != here.cores) {
    return say("another number of cores", std::to_string(stored.cores), std::to_string(here.cores));
  }
  return say("another target", extra_of(stored), extra_of(here));
}

std::set<std::string> flag_features(const std::string& flags) {
  std::set<std::string> needed;
  for (const std::string& flag : words(flags)) {
    const bool names_one =
        flag.starts_with("-m") && !flag.starts_with("-mno-") && flag.find('=') == std::string::npos;
    if (names_one) needed.insert(flag.substr(2));
  }
  return needed;
}

std::set<std::string> needed_features(const Artifact& artifact) {
  std::set<std::string> needed = flag_features(artifact.flags);
  using Json = nlohmann::json;
  const Json description = Json::parse(artifact.description, nullptr, /*allow_exceptions=*/false);
  if (!description.is_object()) return needed;
  const auto features = description.find("features");
  if (features == description.end() || !features->is_array()) return needed;
  for (const Json& feature : *features) {
    if (feature.is_string()) needed.insert(feature.get<std::string>());
  }
  return needed;
}

std::string lacking_features(const Artifact& artifact, const std::set<std::string>& processor) {
  return lacking_features(needed_features(artifact), processor);
}

std::string lacking_features(const std::set<std::string>& needed,
                             const std::set<std::string>& processor) {
  std::string lacking;
  for (const std::string& feature : needed) {
    if (processor.count(feature) == 0) lacking += (lacking.empty() ? "" : ", ") + feature;
  }
  if (lacking.empty()) return "";
  return std::string(kLacking) + lacking + ", which this processor lacks";
}

int ThreadsAsked::most() const { return threads == 0 ? processors : std::min(threads, processors); }

std::string ThreadsAsked::difference(int tuned_for) const {
  const bool too_many = tuned_for > processors;
  if (!too_many && (threads == 0 || tuned_for == threads)) return "";
  std::string text = "tuned for " + threads_text(tuned_for);
  if (threads != 0 && tuned_for != threads) text += ", not for " + std::to_string(threads);
  if (too_many || threads > processors) {
    text += ", this process may use " + std::to_string(processors) +
            (processors == 1 ? " processor" : " processors");
  }
  return text;
}

Nearness nearness(const TargetIdentity& stored, const TargetIdentity& here, int tuned_for,
                  const ThreadsAsked& asked, double seconds, bool is_default) {
  return {is_default, distance(stored, here), std::max(0, tuned_for - asked.most()), seconds,
          -tuned_for};
}

}  // namespace tilewright::database
