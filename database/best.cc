// Finds the kernel to use for a query, or the reason why there is none.
#include <algorithm>
#include <array>

#include "database/store.h"
#include "database/store_impl.h"
#include "database/target.h"

namespace tilewright::database {
namespace {

std::string version_difference(const char* what, const std::string& theirs,
                               const std::optional<std::string>& ours) {
  if (!ours || *ours == theirs) return "";
  return std::string("made with another ") + what + ": '" + theirs + "', this is '" + *ours + "'";
}

// The reason why a valid record of the right workload and target does not match the query; empty if
// it does.
std::string mismatch(const Record& record, const BestQuery& query) {
  if (query.threads && *query.threads != record.threads) {
    return "tuned for " + threads_text(record.threads) + ", not for " +
           std::to_string(*query.threads);
  }
  if (record.offline && !query.allow_offline) {
    return "ranked by the model only, never measured";
  }
  const std::array differences = {
      version_difference("version of the tool", record.tool_version, query.tool_version),
      version_difference("compiler", record.compiler_version, query.compiler_version),
      version_difference("driver", record.driver_version, query.driver_version)};
  for (const std::string& difference : differences) {
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string failure_text(const FailureCounts& failures) {
  std::string text;
  for (const auto& [verdict, count] : failures.by_verdict) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " +
            std::string(verdict_name(verdict));
  }
  return text;
}

// The reason why there is no healthy valid record of the workload for the target.
std::string explain_absence(const Store& store, const BestQuery& query) {
  const FailureCounts failures = store.failures(query.workload_hash, query.target.hash);
  if (!failures.by_verdict.empty()) {
    return "no valid candidate was found for it: " + failure_text(failures);
  }
  const RecordList elsewhere = store.records(
      {.workload_hash = query.workload_hash, .verdict = Verdict::Valid, .by_time = true});
  for (const Record& record : elsewhere.records) {
    if (record.target.hash != query.target.hash) {
      return target_difference(record.target, query.target);
    }
  }
  return "never tuned: the database has no record of it";
}

// Several runs may have confirmed a kernel. The latest confirmation counts, not the fastest: it was
// measured in turns with the kernels that it is compared with.
std::string latest_confirmation(const StoreImpl& store, const std::string& target_hash) {
  return "AND NOT (confirmed AND EXISTS (SELECT 1 FROM records AS later "
         "WHERE later.workload_hash = ?1 AND " +
         in_stored_targets(store, "later.target_hash", target_hash) +
         " AND later.confirmed "
         "AND later.artifact_hash <> '' AND later.artifact_hash = records.artifact_hash "
         "AND later.threads = records.threads "
         "AND (later.created, later.id) > (records.created, records.id))) ";
}

constexpr std::string_view kUnusable = "its artifact cannot be used: ";

std::string rank_sql(const StoreImpl& store, const std::string& target_hash) {
  std::string sql = "WHERE workload_hash = ?1 AND " +
                    in_stored_targets(store, "target_hash", target_hash) +
                    " AND verdict = 'valid' ";
  if (store.version >= 2) sql += latest_confirmation(store, target_hash);
  sql += "ORDER BY ";
  return sql + (store.version >= 2 ? "confirmed DESC, " : "") + "median_seconds, trial, id";
}

}  // namespace

std::string unusable(const Store& store, const Record& record, const BestQuery& query,
                     std::optional<Artifact>& artifact) {
  std::string reason = mismatch(record, query);
  if (!reason.empty() || !query.need_artifact) return reason;
  if (record.artifact_hash.empty()) return "no artifact was kept for it";
  Lookup<Artifact> found = store.artifact(record);
  if (!found) return std::string(kUnusable) + found.miss;
  if (query.processor) {
    reason = lacking_features(*found.value, *query.processor);
    if (!reason.empty()) return reason;
  }
  artifact = std::move(found.value);
  return "";
}

BestResult Store::best(const BestQuery& query) const {
  SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
  BestResult result;
  RowScan scan(impl_->connection, table_named("records"), impl_->version,
               rank_sql(*impl_, query.target.hash));
  scan.statement().bind(1, std::string_view(query.workload_hash));
  RecordCompleter completer(*impl_);
  Record record;
  std::string lacks;  // why the best-ranked kernel that this processor cannot run does not serve
  const RecordFilter asked = {.workload_hash = query.workload_hash,
                              .target_hash = query.target.hash,
                              .verdict = Verdict::Valid};
  while (next_record(scan, completer, asked, result.skipped, record)) {
    std::string reason = unusable(*this, record, query, result.artifact);
    if (reason.empty()) {
      result.record = std::move(record);
      result.miss.clear();
      if (result.passed_over.empty() && !result.skipped.empty()) {
        result.passed_over = "a record is damaged: " + to_string(result.skipped.front());
      }
      if (result.passed_over.empty() && result.record->is_untuned()) result.passed_over = lacks;
      return result;
    }
    if (reason.starts_with(kUnusable) && result.passed_over.empty()) result.passed_over = reason;
    if (lacks.empty() && reason.starts_with(kLacking)) {
      lacks = std::string(kTunedLacking) + reason;
    }
    // Reports the best-ranked record's reason: a user can do most about that one.
    if (result.miss.empty()) result.miss = std::move(reason);
  }
  if (result.miss.empty() && !result.skipped.empty()) {
    result.miss = "its records are damaged: " + to_string(result.skipped.front());
  }
  if (result.miss.empty()) result.miss = explain_absence(*this, query);
  return result;
}

std::vector<NearQuery> Store::nearest(const BestQuery& query, const ThreadsAsked& asked) const {
  using Group = std::pair<std::string, int>;  // target and threads
  std::map<Group, std::pair<Nearness, NearQuery>> groups;
  const RecordFilter filter = {
      .workload_hash = query.workload_hash, .verdict = Verdict::Valid, .by_time = true};
  for (const Record& record : records(filter).records) {
    if (record.offline || !may_serve(record.target, query.target)) continue;
    const Nearness near = nearness(record.target, query.target, record.threads, asked,
                                   record.median_seconds, record.is_default);
    const auto [entry, is_new] = groups.try_emplace({record.target.hash, record.threads});
    if (!is_new && entry->second.first <= near) continue;
    BestQuery its = query;
    its.target = record.target;
    its.threads = record.threads;
    std::string reason = target_difference(record.target, query.target);
    const std::string threads = asked.difference(record.threads);
    if (!reason.empty() && !threads.empty()) reason += "; ";
    entry->second = {near, {std::move(its), reason + threads}};
  }
  std::vector<std::pair<Nearness, NearQuery>> sorted;
  for (auto& [group, entry] : groups) sorted.push_back(std::move(entry));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<NearQuery> nearest;
  for (auto& [near, its] : sorted) nearest.push_back(std::move(its));
  return nearest;
}

}  // namespace tilewright::database
