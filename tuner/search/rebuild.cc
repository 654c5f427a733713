#include "tuner/search/rebuild.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/ops/spec.h"
#include "tuner/candidate.h"
#include "tuner/search/finalists.h"
#include "tuner/search/size_plan.h"
#include "tuner/search/trial_record.h"

namespace tilewright {
namespace {

namespace db = database;

// Failed kernels per workload before it is given up.
constexpr int kMostFailures = 8;

using Config = std::pair<std::string, std::string>;  // sketch and config

class Rebuilder {
 public:
  Rebuilder(const Target& target, const db::TargetIdentity& identity, int threads,
            const std::string& tool_version, db::Store& store, Measurer& measurer,
            const std::atomic<bool>& cancelled)
      : target_(target), identity_(identity), store_(store), measurer_(measurer),
        cancelled_(cancelled) {
    options_.threads = threads;
    options_.tool_version = tool_version;
  }

  RebuildReport run() {
    for (const db::WorkloadSummary& summary : store_.workloads("", identity_.hash)) {
      if (cancelled_) break;
      try {
        const Workload workload = parse_workload(summary.canonical);
        if (workload.hash() == summary.hash) rebuild_workload(workload);
      } catch (const SpecError& e) {
        fail(summary.canonical, e.what());
      }
    }
    return std::move(report_);
  }

 private:
  void rebuild_workload(const Workload& workload) {
    made_.clear();
    failures_ = 0;
    const std::vector<db::Record> ranked = ranked_records(workload);
    for (const db::Record& r : ranked) {
      if (failures_ >= kMostFailures || make(workload, r)) break;
    }
    for (const db::Record& r : ranked) {
      if (r.is_default && make(workload, r)) break;
    }
    rebuild_table(workload);
  }

  // The fastest first. Notes which of them may run.
  std::vector<db::Record> ranked_records(const Workload& workload) {
    std::vector<db::Record> ranked;
    for (db::Record& r : store_
                             .records({.workload_hash = workload.hash(),
                       .target_hash = identity_.hash,
                       .verdict = db::Verdict::Valid,
                       .by_time = true})
                             .records) {
      if (r.offline || r.threads != options_.threads || r.artifact_hash.empty()) continue;
      if (store_.artifact(r)) made_.try_emplace({r.sketch, r.config}, r.id);
      ranked.push_back(std::move(r));
    }
    return ranked;
  }

  // Makes a table of the same ranges with the rebuilt kernels.
  void rebuild_table(const Workload& workload) {
    for (db::DispatchTable table : store_.dispatch_tables()) {
      const bool asked = table.workload_hash == workload.hash() &&
                         table.target_hash == identity_.hash && table.threads == options_.threads;
      if (!asked || cancelled_ || is_runnable(table)) continue;
      std::map<std::string, std::string> renamed;
      for (const std::string& id : db::records_of(table)) {
        const db::Lookup<db::Record> record = store_.record(id);
        if (!record || !make(workload, *record.value)) return;
        renamed[id] = made_.at({record.value->sketch, record.value->config});
      }
      for (db::DispatchRange& range : table.ranges) range.record = renamed.at(range.record);
      for (db::DispatchPoint& point : table.points) {
        std::map<std::string, double> seconds;
        for (const auto& [id, time] : point.seconds) {
          if (renamed.contains(id)) seconds[renamed.at(id)] = time;
        }
        point.seconds = std::move(seconds);
      }
      if (!table.default_record.empty()) table.default_record = renamed.at(table.default_record);
      table.created = 0;
      store_.put_dispatch(table);
      ++report_.tables;
    }
  }

  bool is_runnable(const db::DispatchTable& table) const {
    const std::vector<std::string> ids = db::records_of(table);
    return std::all_of(ids.begin(), ids.end(), [&](const std::string& id) {
      const db::Lookup<db::Record> record = store_.record(id);
      return record && store_.artifact(*record.value);
    });
  }

  // Makes sure that a kernel of the config exists that was made here. Returns false on failure.
  bool make(const Workload& workload, const db::Record& wanted) {
    const Config config = {wanted.sketch, wanted.config};
    if (made_.contains(config)) return true;
    if (cancelled_ || tried_.contains({workload.hash(), config})) return false;
    tried_.insert({workload.hash(), config});
    const std::string problem = replay_problem(wanted.sketch, wanted.sketch_version);
    if (!problem.empty()) {
      ++report_.skipped;
      report_.reasons.push_back(workload.canonical + ": " + problem);
      return false;
    }
    try {
      CandidateMaker maker(workload, target_, options_.threads, &cancelled_);
      std::optional<Candidate> candidate =
          maker.make(*find_sketch(wanted.sketch), Trial::replay(wanted.config));
      if (!candidate) throw Error("its config makes no program of the workload");
      candidate->is_default = wanted.is_default;
      return store(workload, wanted, *candidate);
    } catch (const Error& e) {
      fail(workload.canonical, e.what());
    }
    return false;
  }

  bool store(const Workload& workload, const db::Record& wanted, const Candidate& candidate) {
    const std::optional<SizePlan> sizes = plan_sizes(workload);
    PointFinalists none(sizes ? sizes->tuned.size() : 0);
    const Measurement m = measurer_
                              .measure(workload, {candidate}, {cancelled_}, 0, {},
                                       sizes ? none.beside_last(*sizes) : std::vector<SizePoint>{})
                              .at(0);
    if (m.verdict != TrialVerdict::Valid) {
      if (!cancelled_) fail(workload.canonical, m.reason);
      return false;
    }
    db::Record r = record_of(workload, identity_, candidate, options_, "");
    r.label = wanted.label;
    r.samples = m.samples;
    r.median_seconds = m.median;
    if (sizes) {
      std::vector<double> at_points = m.at_points;
      at_points.push_back(m.median);
      r.points = sized_times(*sizes, at_points);
    }
    r.trial = wanted.trial;
    r.compiler_version = m.compiler;
    const db::Artifact kernel = artifact_of(m.source, m.object, m.compiler, m.cuda);
    db::Transaction both = store_.begin();
    r.artifact_hash = store_.put_artifact(kernel);
    made_[{wanted.sketch, wanted.config}] = store_.insert(r);
    both.commit();
    ++report_.rebuilt;
    return true;
  }

  void fail(const std::string& workload, const std::string& reason) {
    ++failures_;
    ++report_.failed;
    report_.reasons.push_back(workload + ": " + reason.substr(0, reason.find('\n')));
  }

  const Target& target_;
  const db::TargetIdentity& identity_;
  db::Store& store_;
  Measurer& measurer_;
  const std::atomic<bool>& cancelled_;
  TuneOptions options_;
  RebuildReport report_;
  std::map<Config, std::string> made_;  // ids of the workload's records whose kernels may run
  std::set<std::pair<std::string, Config>> tried_;
  int failures_ = 0;  // per workload
};

}  // namespace

RebuildReport rebuild(const Target& target, const db::TargetIdentity& identity, int threads,
                      const std::string& tool_version, db::Store& store, Measurer& measurer,
                      const std::atomic<bool>& cancelled) {
  return Rebuilder(target, identity, threads, tool_version, store, measurer, cancelled).run();
}

}  // namespace tilewright
