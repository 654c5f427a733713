#include "cli/report/report_data.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

#include "cli/report/report_workload.h"
#include "database/tables/convert.h"
#include "tilewright/version.h"
#include "tuner/backend.h"

namespace tilewright::cli {
namespace {

// A run that changed nothing for so long has been killed: the slowest trial takes a minute.
constexpr int64_t kSilence = 120'000'000;  // microseconds

bool goes_on(const database::TuningRun& run) {
  return run.state == database::RunState::Running &&
         database::now_microseconds() - run.updated < kSilence;
}

class Gatherer {
 public:
  Gatherer(const CommonOptions& options, const ReportBenches& benches, const database::Store& store)
      : options_(options), benches_(benches), store_(store), lookup_(options), runs_(store.runs()) {
  }

  Report gather();

 private:
  std::vector<Workload> wanted() const;
  void add(const Workload& w);
  bool add_predicted(const Workload& w);
  // On a workload, of the runs of these records, latest first.
  std::vector<WorkloadFindings> findings(const std::string& workload,
                                         const std::vector<database::Record>& records);
  void note_origin(const database::Record& r);

  const CommonOptions& options_;
  const ReportBenches& benches_;
  const database::Store& store_;
  Lookup lookup_;
  std::vector<database::TuningRun> runs_;        // all that the database has, latest first
  std::map<std::string, RunFindings> findings_;  // by run; read when first asked for
  std::set<std::string> run_ids_, compilers_;
  Report report_;
};

std::vector<Workload> Gatherer::wanted() const {
  if (!options_.specs.empty()) return read_workloads(options_);
  return stored_workloads(store_, lookup_);
}

void Gatherer::note_origin(const database::Record& r) {
  run_ids_.insert(r.run_id);
  if (!r.compiler_version.empty()) compilers_.insert(r.compiler_version);
}

std::vector<WorkloadFindings> Gatherer::findings(const std::string& workload,
                                                 const std::vector<database::Record>& records) {
  std::set<std::string> ids;
  for (const database::Record& r : records) ids.insert(r.run_id);
  std::vector<WorkloadFindings> list;
  for (const database::TuningRun& run : runs_) {
    if (!ids.contains(run.id)) continue;
    const auto [of_run, is_new] = findings_.try_emplace(run.id);
    if (is_new) of_run->second = findings_of(run.args);
    auto found = of_run->second.find(workload);
    if (found != of_run->second.end()) list.push_back(found->second);
  }
  return list;
}

void Gatherer::add(const Workload& w) {
  database::RecordFilter filter;
  filter.workload_hash = w.hash();
  filter.target_hash = lookup_.identity.hash;
  std::map<int, std::vector<database::Record>> by_threads;
  for (database::Record& r : store_.records(filter).records) {
    if (r.offline || (options_.threads > 0 && r.threads != options_.threads)) continue;
    note_origin(r);
    by_threads[r.threads].push_back(std::move(r));
  }
  if (by_threads.empty() && Backend::of(lookup_.target).only_predicts() && add_predicted(w)) return;
  if (by_threads.empty() && !options_.specs.empty()) {
    database::BestResult best = lookup_.best(store_, w);
    throw MissError(w, options_, best.miss.empty() ? "nothing was measured" : best.miss);
  }
  for (auto& [threads, records] : by_threads) {
    ReportWorkload out = workload_report(w, lookup_.target, threads, records,
                                         findings(w.hash(), records), !report_.searching);
    auto bench = benches_.rows.find({out.spec, threads});
    if (bench != benches_.rows.end()) out.bench = bench->second;
    report_.workloads.push_back(std::move(out));
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
    note_origin(r);
    ranked.push_back(std::move(r));
  }
  if (ranked.empty()) return false;
  ReportWorkload out = workload_report(w, lookup_.target, 1, {}, {}, !report_.searching);
  out.predicted = top_configs(ranked);
  report_.workloads.push_back(std::move(out));
  return true;
}

Report Gatherer::gather() {
  report_.searching = std::any_of(runs_.begin(), runs_.end(), goes_on);
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
  report_.baselines = benches_.versions;
  for (database::TuningRun& run : runs_) {
    if (run_ids_.contains(run.id)) report_.runs.push_back(std::move(run));
  }
  return std::move(report_);
}

}  // namespace

int64_t ReportWorkload::valid() const {
  return std::count_if(trials.begin(), trials.end(),
                       [](const ReportTrial& t) { return t.verdict == database::Verdict::Valid; });
}

Report gather_report(const CommonOptions& options, const ReportBenches& benches,
                     const database::Store& store) {
  return Gatherer(options, benches, store).gather();
}

}  // namespace tilewright::cli
