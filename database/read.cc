// The store's methods that read single facts or lists.
#include <algorithm>

#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/convert.h"
#include "database/trust/vouch.h"

namespace tilewright::database {
namespace {

// A damaged index can lead to another row than the one asked for.
constexpr const char* kWrongIndex = "an index that leads to it is damaged";

bool matches(const Record& record, const RecordFilter& filter) {
  const auto same = [](const std::string& wanted, const std::string& text) {
    return wanted.empty() || wanted == text;
  };
  return same(filter.workload_hash, record.workload_hash) &&
         same(filter.target_hash, record.target.hash) && same(filter.op, record.op) &&
         same(filter.run_id, record.run_id) &&
         (!filter.verdict || *filter.verdict == record.verdict);
}

}  // namespace

Lookup<Row> find_row(const StoreImpl& store, const char* table_name, const std::string& key) {
  const Table& table = table_named(table_name);
  RowScan scan(store.connection, table, store.version,
               std::string("WHERE ") + table.columns[0].name + " = ?1");
  scan.statement().bind(1, std::string_view(key));
  const std::string name = std::string("the row of ") + key + " in table " + table_name;
  if (!scan.next()) return {std::nullopt, name + " is missing"};
  if (!scan.problem().empty()) return {std::nullopt, name + " is damaged: " + scan.problem()};
  if (scan.row()[0] != Cell(key)) return {std::nullopt, name + ": " + kWrongIndex};
  return {scan.row(), ""};
}

std::vector<std::string> stored_targets(const StoreImpl& store, const std::string& hash) {
  std::vector<std::string> hashes = {hash};
  RowScan scan(store.connection, table_named("targets"), store.version, "ORDER BY hash");
  while (scan.next()) {
    if (!scan.problem().empty()) continue;
    const auto& stored = std::get<std::string>(scan.row()[0]);
    if (stored != hash && target_from_row(scan.row()).hash == hash) hashes.push_back(stored);
  }
  return hashes;
}

std::string in_stored_targets(const StoreImpl& store, const char* column, const std::string& hash) {
  std::string list;
  for (const std::string& target : stored_targets(store, hash)) {
    list += list.empty() ? "'" : ", '";
    for (char c : target) list += c == '\'' ? std::string("''") : std::string(1, c);
    list += "'";
  }
  return std::string(column) + " IN (" + list + ")";
}

std::string target_hash_today(const StoreImpl& store, const std::string& stored) {
  const Lookup<Row> row = find_row(store, "targets", stored);
  return row ? target_from_row(*row.value).hash : stored;
}

namespace {

template <class Fact, class Convert>
Lookup<Fact> find_fact(const StoreImpl& store, const char* table, const std::string& key,
                       Convert convert) {
  Lookup<Row> row = find_row(store, table, key);
  if (!row) return {std::nullopt, row.miss};
  return {convert(*row.value), ""};
}

std::string filter_sql(const RecordFilter& filter, const StoreImpl& store) {
  std::string sql;
  const auto add = [&](bool wanted, const char* condition) {
    if (wanted) sql += std::string(sql.empty() ? "WHERE " : " AND ") + condition;
  };
  add(!filter.workload_hash.empty(), "workload_hash = ?1");
  if (!filter.target_hash.empty()) {
    add(true, in_stored_targets(store, "target_hash", filter.target_hash).c_str());
  }
  add(!filter.op.empty(), "workload_hash IN (SELECT hash FROM workloads WHERE op = ?2)");
  add(!filter.run_id.empty(), "run_id = ?3");
  add(filter.verdict.has_value(), "verdict = ?4");
  const std::string confirmed = store.version >= 2 ? "confirmed DESC, " : "";
  sql += filter.by_time ? " ORDER BY " + confirmed + "median_seconds, trial, id"
                        : std::string(" ORDER BY +rowid");
  return sql + " LIMIT ?5";
}

void bind_filter(Statement& statement, const RecordFilter& filter) {
  statement.bind(5, filter.limit);
  const auto bind = [&](int index, std::string_view text) {
    if (!text.empty()) statement.bind(index, text);
  };
  bind(1, filter.workload_hash);
  bind(2, filter.op);
  bind(3, filter.run_id);
  if (filter.verdict) bind(4, verdict_name(*filter.verdict));
}

}  // namespace

const Lookup<RecordCompleter::Workload>& RecordCompleter::workload(const std::string& hash) {
  const auto [entry, is_new] = workloads_.try_emplace(hash);
  if (is_new) {
    entry->second = find_fact<Workload>(*store_, "workloads", hash, [](const Row& row) {
      return Workload{std::get<std::string>(row[1]), std::get<std::string>(row[2])};
    });
  }
  return entry->second;
}

const Lookup<TargetIdentity>& RecordCompleter::target(const std::string& hash) {
  const auto [entry, is_new] = targets_.try_emplace(hash);
  if (is_new) {
    entry->second = find_fact<TargetIdentity>(*store_, "targets", hash, target_from_row);
  }
  return entry->second;
}

std::string RecordCompleter::complete(Record& record) {
  const Lookup<Workload>& workload_found = workload(record.workload_hash);
  if (!workload_found) return workload_found.miss;
  const Lookup<TargetIdentity>& target_found = target(record.target.hash);
  if (!target_found) return target_found.miss;
  record.workload_canonical = workload_found.value->canonical;
  record.op = workload_found.value->op;
  record.target = *target_found.value;
  return "";
}

namespace {

// The reason why a healthy row is no record that matches; empty when it is one.
std::string read_record(const Row& row, RecordCompleter& completer, const RecordFilter& filter,
                        Record& record) {
  try {
    record = record_from_row(row);
  } catch (const RecordError& error) {
    return error.what();
  }
  const std::string problem = completer.complete(record);
  return problem.empty() && !matches(record, filter) ? kWrongIndex : problem;
}

}  // namespace

bool next_record(RowScan& scan, RecordCompleter& completer, const RecordFilter& filter,
                 std::vector<BadRow>& skipped, Record& record) {
  while (scan.next()) {
    std::string problem = scan.problem();
    if (problem.empty()) {
      problem = read_record(scan.row(), completer, filter, record);
      if (problem.empty()) return true;
    }
    BadRow bad = bad_row(table_named("records"), scan);
    bad.problem = problem;
    skipped.push_back(std::move(bad));
  }
  return false;
}

RecordList Store::records(const RecordFilter& filter) const {
  RecordList list;
  SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
  RowScan scan(impl_->connection, table_named("records"), impl_->version,
               filter_sql(filter, *impl_));
  bind_filter(scan.statement(), filter);
  RecordCompleter completer(*impl_);
  Record record;
  while (next_record(scan, completer, filter, list.skipped, record)) list.records.push_back(record);
  return list;
}

Lookup<Record> Store::record(const std::string& id) const {
  SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
  Lookup<Record> found = find_fact<Record>(*impl_, "records", id, record_from_row);
  if (!found) return found;
  const std::string problem = RecordCompleter(*impl_).complete(*found.value);
  if (!problem.empty()) return {std::nullopt, problem};
  return found;
}

Lookup<Artifact> Store::artifact(const Record& record) const {
  return loadable(*impl_, record.artifact_hash, record.workload_hash);
}

Lookup<Artifact> Store::artifact(const std::string& hash, const std::string& workload_hash) const {
  return loadable(*impl_, hash, workload_hash);
}

Lookup<Artifact> Store::artifact(const std::string& hash) const {
  return loadable(*impl_, hash, "");
}

Lookup<Model> Store::model(const std::string& target_hash, const std::string& kind,
                           int feature_version) const {
  const Table& table = table_named("models");
  const std::string name = "the " + kind + " model of feature version " +
                           std::to_string(feature_version) + " for this target";
  if (!impl_->has(table)) return {std::nullopt, name + " is missing: the schema is too old"};
  // A model is not code, but its library may not be safe on arbitrary bytes.
  if (!impl_->distrust.empty()) return {std::nullopt, name + " is not trusted: " + impl_->distrust};
  RowScan scan(impl_->connection, table, impl_->version,
               "WHERE " + in_stored_targets(*impl_, "target_hash", target_hash) +
                   " AND kind = ?1 AND feature_version = ?2 ORDER BY created DESC");
  scan.statement().bind(1, std::string_view(kind)).bind(2, int64_t{feature_version});
  if (!scan.next()) return {std::nullopt, name + " is missing"};
  if (!scan.problem().empty()) return {std::nullopt, name + " is damaged: " + scan.problem()};
  Model found = model_from_row(scan.row());
  const std::vector<std::string> targets = stored_targets(*impl_, target_hash);
  if (std::count(targets.begin(), targets.end(), found.target_hash) == 0 || found.kind != kind ||
      found.feature_version != feature_version) {
    return {std::nullopt, name + ": " + kWrongIndex};
  }
  return {std::move(found), ""};
}

std::vector<TuningRun> Store::runs() const {
  std::vector<TuningRun> runs;
  RowScan scan(impl_->connection, table_named("runs"), impl_->version, "ORDER BY updated DESC, id");
  while (scan.next()) {
    if (scan.problem().empty()) runs.push_back(run_from_row(scan.row()));
  }
  return runs;
}

Lookup<TuningRun> Store::run(const std::string& id) const {
  return find_fact<TuningRun>(*impl_, "runs", id, run_from_row);
}

Lookup<TuningRun> Store::last_unfinished_run() const {
  for (TuningRun& run : runs()) {
    if (run.state == RunState::Running || run.state == RunState::Interrupted) {
      return {std::move(run), ""};
    }
  }
  return {std::nullopt, "no run was interrupted"};
}

std::vector<WorkloadSummary> Store::workloads(const std::string& op,
                                              const std::string& target_hash) const {
  std::map<std::string, WorkloadSummary> found;
  for (const Record& record : records({.target_hash = target_hash, .op = op}).records) {
    WorkloadSummary& summary = found[record.workload_hash];
    summary.hash = record.workload_hash;
    summary.canonical = record.workload_canonical;
    summary.op = record.op;
    if (!record.label.empty()) summary.label = record.label;
    ++summary.records;
    if (record.verdict != Verdict::Valid || record.offline) continue;
    const bool first = summary.valid++ == 0;
    summary.best_seconds =
        first ? record.median_seconds : std::min(summary.best_seconds, record.median_seconds);
  }
  std::vector<WorkloadSummary> result;
  for (auto& [hash, summary] : found) result.push_back(std::move(summary));
  return result;
}

FailureCounts Store::failures(const std::string& workload_hash,
                              const std::string& target_hash) const {
  FailureCounts counts;
  const RecordFilter filter = {.workload_hash = workload_hash, .target_hash = target_hash};
  for (const Record& record : records(filter).records) {
    if (record.verdict == Verdict::Valid) continue;
    ++counts.by_verdict[record.verdict];
    ++counts.by_reason[record.reason.substr(0, record.reason.find('\n'))];
  }
  return counts;
}

std::set<TriedConfig> Store::tried(const std::string& workload_hash,
                                   const std::string& target_hash) const {
  std::set<TriedConfig> configs;
  const RecordFilter filter = {.workload_hash = workload_hash, .target_hash = target_hash};
  for (const Record& record : records(filter).records) {
    if (!record.offline) configs.insert({record.sketch, record.sketch_version, record.config});
  }
  return configs;
}

}  // namespace tilewright::database
