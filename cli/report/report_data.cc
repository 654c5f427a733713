#include "cli/report/report_data.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "tilewright/version.h"
#include "tuner/backend.h"

namespace tilewright::cli {
namespace {

constexpr size_t kTopConfigs = 10;
constexpr size_t kSampleReasons = 3;
constexpr size_t kReasonLength = 200;

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= kReasonLength) return line;
  size_t end = kReasonLength;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;  // inside UTF-8
  return line.substr(0, end) + "…";
}

// One a config, the last confirmation before earlier measurements, fastest first.
std::vector<ReportConfig> top_configs(const std::vector<database::Record>& records) {
  std::map<std::pair<std::string, std::string>, ReportConfig> by_config;
  for (const database::Record& r : records) {
    if (r.verdict != database::Verdict::Valid) continue;
    ReportConfig& c = by_config[{r.sketch, r.config}];
    bool better = c.seconds == 0 || (r.confirmed && !c.confirmed) ||
                  (r.confirmed == c.confirmed && r.median_seconds < c.seconds);
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

// `records`: measured ones of one workload on one number of threads, in the order of measuring.
ReportWorkload workload_report(const Workload& w, const Target& target, int threads,
                               const std::vector<database::Record>& records) {
  ReportWorkload out;
  out.spec = spec_to_inline(parse_spec(w.canonical));
  out.label = w.label;
  out.expr = to_string(w);
  out.hash = w.hash();
  out.threads = threads;
  out.flops = w.flops;
  for (const database::Record& r : records) {
    if (r.is_default && r.verdict == database::Verdict::Valid) {
      out.default_seconds = r.median_seconds;
    }
    if (r.confirmed) continue;  // an earlier trial, measured again
    bool valid = r.verdict == database::Verdict::Valid;
    out.trials.push_back({static_cast<int>(out.trials.size()) + 1, r.verdict,
                          valid ? r.median_seconds : 0, r.sketch, r.config, first_line(r.reason),
                          r.is_default});
  }
  out.top = top_configs(records);
  // First: it may measure the machine's peaks again.
  if (out.best() != nullptr) {
    out.above_roof = roofline_share(w, target, threads, out.best()->seconds).cause;
  }
  out.roof = roofline_of(w, target, threads);
  out.rates = Backend::of(target).rates(target, threads);
  out.failures = failures_of(out.trials);
  return out;
}

class Gatherer {
 public:
  Gatherer(const CommonOptions& options, const database::Store& store)
      : options_(options), store_(store), lookup_(options) {}

  Report gather();

 private:
  std::vector<Workload> wanted() const;
  void add(const Workload& w);
  bool add_predicted(const Workload& w);

  const CommonOptions& options_;
  const database::Store& store_;
  Lookup lookup_;
  std::set<std::string> run_ids_, compilers_;
  Report report_;
};

std::vector<Workload> Gatherer::wanted() const {
  if (!options_.specs.empty()) return read_workloads(options_);
  return stored_workloads(store_, lookup_);
}

void Gatherer::add(const Workload& w) {
  database::RecordFilter filter;
  filter.workload_hash = w.hash();
  filter.target_hash = lookup_.identity.hash;
  std::map<int, std::vector<database::Record>> by_threads;
  for (database::Record& r : store_.records(filter).records) {
    if (r.offline || (options_.threads > 0 && r.threads != options_.threads)) continue;
    run_ids_.insert(r.run_id);
    if (!r.compiler_version.empty()) compilers_.insert(r.compiler_version);
    by_threads[r.threads].push_back(std::move(r));
  }
  if (by_threads.empty() && Backend::of(lookup_.target).predicts() && add_predicted(w)) return;
  if (by_threads.empty() && !options_.specs.empty()) {
    database::BestResult best = lookup_.best(store_, w);
    throw MissError(w, options_, best.miss.empty() ? "nothing was measured" : best.miss);
  }
  for (auto& [threads, records] : by_threads) {
    report_.workloads.push_back(workload_report(w, lookup_.target, threads, records));
  }
}

// A model's ranking of a workload that nobody has measured; false when there is nothing.
bool Gatherer::add_predicted(const Workload& w) {
  database::RecordFilter filter;
  filter.workload_hash = w.hash();
  filter.target_hash = described_identity(lookup_.target).hash;
  std::vector<database::Record> ranked;
  for (database::Record& r : store_.records(filter).records) {
    if (!r.offline) continue;
    run_ids_.insert(r.run_id);
    if (!r.compiler_version.empty()) compilers_.insert(r.compiler_version);
    ranked.push_back(std::move(r));
  }
  if (ranked.empty()) return false;
  ReportWorkload out = workload_report(w, lookup_.target, 1, {});
  out.predicted = top_configs(ranked);
  report_.workloads.push_back(std::move(out));
  return true;
}

Report Gatherer::gather() {
  for (const Workload& w : wanted()) add(w);
  if (report_.workloads.empty()) {
    throw MissError(fmt::format(
        "'{}' holds no trial for the target '{}' on this machine; this would make some: "
        "tune-cli tune SPEC --db {}",
        options_.db, lookup_.target.name, options_.db));
  }
  report_.date = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)));
  report_.database = store_.path();
  report_.tool_version = TILEWRIGHT_VERSION;
  report_.target = lookup_.target.name;
  report_.identity = lookup_.identity;
  report_.compilers.assign(compilers_.begin(), compilers_.end());
  for (database::TuningRun& run : store_.runs()) {
    if (run_ids_.contains(run.id)) report_.runs.push_back(std::move(run));
  }
  return std::move(report_);
}

}  // namespace

int64_t ReportWorkload::valid() const {
  return std::count_if(trials.begin(), trials.end(),
                       [](const ReportTrial& t) { return t.verdict == database::Verdict::Valid; });
}

Report gather_report(const CommonOptions& options, const database::Store& store) {
  return Gatherer(options, store).gather();
}

}  // namespace tilewright::cli
