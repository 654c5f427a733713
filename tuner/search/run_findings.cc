#include "tuner/search/run_findings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tilewright {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKey = "findings";

double number(const Json& object, const char* key) {
  auto it = object.find(key);
  return it != object.end() && it->is_number() ? std::max(0.0, it->get<double>()) : 0;
}

std::string text(const Json& object, const char* key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// A member of an object; null where there is none.
Json member(const Json& object, const char* key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() ? *it : Json();
}

Json parsed(const std::string& args) {
  Json json = Json::parse(args, nullptr, false);
  return json.is_object() ? json : Json::object();
}

Json json_of(const WorkloadFindings& f) {
  Json spent = Json::object(), finalists = Json::array();
  for (const auto& [name, part] : kSpentParts) spent[name] = f.spent.*part;
  for (const FinalistRounds& r : f.finalists) {
    finalists.push_back(
        {{"sketch", r.sketch}, {"config", r.config}, {"seconds", r.seconds}, {"winner", r.winner}});
  }
  return {{"elapsed_s", f.elapsed}, {"spent_s", spent}, {"finalists", finalists}};
}

FinalistRounds rounds_from(const Json& json) {
  FinalistRounds r{text(json, "sketch"), text(json, "config"), {}, false};
  const Json seconds = member(json, "seconds"), winner = member(json, "winner");
  if (seconds.is_array()) {
    for (const Json& s : seconds) {
      if (s.is_number() && s.get<double>() > 0) r.seconds.push_back(s.get<double>());
    }
  }
  r.winner = winner.is_boolean() && winner.get<bool>();
  return r;
}

WorkloadFindings findings_from(const Json& json) {
  WorkloadFindings f;
  f.elapsed = number(json, "elapsed_s");
  const Json spent = member(json, "spent_s"), finalists = member(json, "finalists");
  if (spent.is_object()) {
    for (const auto& [name, part] : kSpentParts) f.spent.*part = number(spent, name);
  }
  if (!finalists.is_array()) return f;
  for (const Json& one : finalists) {
    if (!one.is_object()) continue;
    FinalistRounds r = rounds_from(one);
    if (!r.seconds.empty()) f.finalists.push_back(std::move(r));
  }
  return f;
}

}  // namespace

std::string with_findings(const std::string& args, const RunFindings& findings) {
  Json json = parsed(args), list = Json::object();
  for (const auto& [hash, f] : findings) list[hash] = json_of(f);
  json[kKey] = list;
  return json.dump();
}

RunFindings findings_of(const std::string& args) {
  RunFindings findings;
  const Json list = member(parsed(args), kKey);
  if (!list.is_object()) return findings;
  for (const auto& [hash, one] : list.items()) {
    if (one.is_object()) findings[hash] = findings_from(one);
  }
  return findings;
}

std::string without_findings(const std::string& args) {
  Json json = Json::parse(args, nullptr, false);
  if (!json.is_object() || json.erase(kKey) == 0) return args;
  return json.dump();
}

std::vector<FinalistRounds> finalist_rounds(const std::vector<Finalist>& rivals,
                                            const Comparison& comparison, int winner) {
  std::vector<std::pair<double, FinalistRounds>> ran;
  for (size_t i = 0; i < rivals.size(); ++i) {
    if (comparison.medians[i] <= 0) continue;
    const database::Record& r = rivals[i].record;
    ran.emplace_back(comparison.medians[i], FinalistRounds{r.sketch, r.config, comparison.rounds[i],
                                                           static_cast<int>(i) == winner});
  }
  std::stable_sort(ran.begin(), ran.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<FinalistRounds> list;
  for (auto& [median, rounds] : ran) list.push_back(std::move(rounds));
  return list;
}

}  // namespace tilewright
