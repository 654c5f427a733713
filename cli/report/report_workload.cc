#include "cli/report/report_workload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "ir/ops/spec.h"
#include "tuner/backend.h"

namespace tilewright::cli {
namespace {

constexpr size_t kTopConfigs = 10, kFinalists = 8;
constexpr size_t kSampleReasons = 3;
constexpr size_t kReasonLength = 200;

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= kReasonLength) return line;
  size_t end = kReasonLength;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;  // inside UTF-8
  return line.substr(0, end) + "…";
}

// The time of a valid record; 0 for others. Somebody else may have written the database.
double valid_seconds(const database::Record& r) {
  const bool valid = r.verdict == database::Verdict::Valid && std::isfinite(r.median_seconds);
  return valid ? std::max(0.0, r.median_seconds) : 0;
}

std::vector<ReportTrial> trials_of(const std::vector<database::Record>& records) {
  std::vector<ReportTrial> trials;
  int candidates = 0;
  for (const database::Record& r : records) {
    if (r.confirmed) continue;  // an earlier trial, measured again
    const int number = r.is_default ? 0 : ++candidates;
    trials.push_back({number, r.verdict, valid_seconds(r), r.sketch, r.config, first_line(r.reason),
                      r.is_default});
  }
  return trials;
}

std::vector<ReportFailure> failures_of(const std::vector<ReportTrial>& trials) {
  std::map<database::Verdict, ReportFailure> by_cause;
  for (const ReportTrial& t : trials) {
    if (t.verdict == database::Verdict::Valid) continue;
    ReportFailure& f = by_cause[t.verdict];
    f.cause = database::verdict_name(t.verdict);
    ++f.count;
    bool known = std::find(f.reasons.begin(), f.reasons.end(), t.reason) != f.reasons.end();
    if (!known && f.reasons.size() < kSampleReasons) f.reasons.push_back(t.reason);
  }
  std::vector<ReportFailure> list;
  for (auto& [verdict, f] : by_cause) list.push_back(std::move(f));
  return list;
}

// Trials for models. Features of another version, or of another length, are left out.
std::vector<ModelledTrial> modelled(const std::vector<database::Record>& records, int version) {
  const bool featured = std::all_of(records.begin(), records.end(), [&](const database::Record& r) {
    return r.confirmed || r.is_default ||
           (r.feature_version == version && r.features.size() == records[0].features.size());
  });
  std::vector<ModelledTrial> trials;
  KnobWords words;
  int number = 0;
  for (const database::Record& r : records) {
    if (r.confirmed || r.is_default) continue;
    ModelledTrial t{++number, valid_seconds(r), {}, knobs_of(r.config, words)};
    t.knobs.merge(knobs_of(nlohmann::json{{"sketch", r.sketch}}.dump(), words));
    if (featured) t.features = r.features;
    trials.push_back(std::move(t));
  }
  return trials;
}

// Fits of models, which throw Error for values that no model takes.
void analyse(const Target& target, const std::vector<database::Record>& records,
             ReportWorkload& out) {
  const Backend& backend = Backend::of(target);
  const std::vector<ModelledTrial> trials = modelled(records, backend.feature_version());
  try {
    out.knobs = knob_importance(trials);
    CostModel prior;
    const std::vector<std::byte> shipped = backend.pretrained(target);
    if (!shipped.empty()) prior.load(shipped);
    out.predictions = replayed_predictions(trials, prior);
  } catch (const Error& e) {
    if (out.knobs.knobs.empty()) out.knobs.missing = e.what();
    out.predictions = {.trials = {}, .rank_correlation = 0, .missing = e.what()};
  }
}

using ConfigKey = std::pair<std::string, std::string>;  // sketch and config

// The winner first, then by time.
void put_in_order(std::vector<ReportFinalist>& list) {
  std::stable_sort(list.begin(), list.end(), [](const ReportFinalist& a, const ReportFinalist& b) {
    return std::pair(!a.winner, a.time.median) < std::pair(!b.winner, b.time.median);
  });
  if (list.size() > kFinalists) list.resize(kFinalists);
}

// The closing comparison of the latest run that had one; else the fastest trials with their samples.
ReportFinalists finalists_of(const ReportConfig* best, const std::vector<database::Record>& records,
                             const std::vector<WorkloadFindings>& findings) {
  std::map<ConfigKey, const database::Record*> trials;
  for (const database::Record& r : records) {
    if (!r.confirmed && valid_seconds(r) > 0) trials[{r.sketch, r.config}] = &r;
  }
  ReportFinalists out;
  auto compared = std::find_if(findings.begin(), findings.end(),
                               [](const WorkloadFindings& f) { return !f.finalists.empty(); });
  if (compared != findings.end()) {
    for (const FinalistRounds& f : compared->finalists) {
      auto trial = trials.find({f.sketch, f.config});
      const bool is_default = trial != trials.end() && trial->second->is_default;
      out.list.push_back({f.sketch, f.config, interval_of(f.seconds), f.winner, is_default});
    }
    out.in_turns = true;
    put_in_order(out.list);
    return out;
  }
  for (const auto& [key, r] : trials) {
    if (r->samples.empty()) continue;
    const bool winner = best != nullptr && best->sketch == r->sketch && best->config == r->config;
    out.list.push_back({r->sketch, r->config, interval_of(r->samples), winner, r->is_default});
  }
  put_in_order(out.list);
  return out;
}

ReportTime time_of(const std::vector<WorkloadFindings>& findings) {
  ReportTime time;
  for (const WorkloadFindings& f : findings) {
    time.elapsed += f.elapsed;
    time.spent += f.spent;
  }
  return time;
}

}  // namespace

std::vector<ReportConfig> top_configs(const std::vector<database::Record>& records) {
  std::map<ConfigKey, ReportConfig> by_config;
  for (const database::Record& r : records) {
    if (valid_seconds(r) == 0) continue;
    ReportConfig& c = by_config[{r.sketch, r.config}];
    // The latest of several confirmations counts, as in the database's choice.
    bool better = c.seconds == 0 || r.confirmed || (!c.confirmed && r.median_seconds < c.seconds);
    if (better) c = {r.median_seconds, r.sketch, r.config, r.is_default, r.confirmed};
  }
  std::vector<ReportConfig> list;
  for (auto& [key, c] : by_config) list.push_back(std::move(c));
  // As the database chooses: a winner that was measured again comes first.
  std::stable_sort(list.begin(), list.end(), [](const ReportConfig& a, const ReportConfig& b) {
    return std::pair(!a.confirmed, a.seconds) < std::pair(!b.confirmed, b.seconds);
  });
  if (list.size() > kTopConfigs) list.resize(kTopConfigs);
  return list;
}

ReportWorkload workload_report(const Workload& w, const Target& target, int threads,
                               const std::vector<database::Record>& records,
                               const std::vector<WorkloadFindings>& findings, bool thorough) {
  ReportWorkload out;
  out.spec = spec_to_inline(parse_spec(w.canonical));
  out.label = w.label;
  out.expr = to_string(w);
  out.hash = w.hash();
  out.threads = threads;
  out.flops = w.flops;
  for (const database::Record& r : records) {
    if (r.is_default && valid_seconds(r) > 0) out.default_seconds = r.median_seconds;
  }
  out.trials = trials_of(records);
  out.top = top_configs(records);
  // First: it may measure the machine's peaks again.
  if (out.best() != nullptr && thorough) {
    out.above_roof = roofline_share(w, target, threads, out.best()->seconds).cause;
  }
  out.roof = roofline_of(w, target, threads);
  if (out.best() != nullptr && !thorough && out.best()->seconds < out.roof.seconds) {
    out.above_roof = "not looked into while a search runs";
  }
  out.rates = Backend::of(target).rates(target, threads);
  out.failures = failures_of(out.trials);
  out.finalists = finalists_of(out.best(), records, findings);
  out.time = time_of(findings);
  if (thorough) {
    analyse(target, records, out);
  } else {
    out.knobs.missing = out.predictions.missing = "left for when the search has ended";
  }
  return out;
}

}  // namespace tilewright::cli
