#include <algorithm>
#include <set>
#include <tuple>

#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/dispatch_row.h"

namespace tilewright::database {
namespace {

// The fields of a record that pruning needs, from a healthy row.
struct Ranked {
  bool unconfirmed;
  double seconds;
  int64_t trial;
  std::string id;
  int64_t rowid;
  bool is_default;

  auto rank() const { return std::tie(unconfirmed, seconds, trial, id); }
};

using Group = std::tuple<std::string, std::string, int64_t>;  // workload, target, threads

template <class T>
const T& cell(const RowScan& scan, std::string_view column) {
  return std::get<T>(scan.row()[table_named("records").index_of(column)]);
}

Ranked ranked(const RowScan& scan) {
  return {cell<int64_t>(scan, "confirmed") == 0,
          cell<double>(scan, "median_seconds"),
          cell<int64_t>(scan, "trial"),
          cell<std::string>(scan, "id"),
          scan.rowid(),
          cell<int64_t>(scan, "is_default") != 0};
}

using Ids = std::set<std::string>;

// The records that dispatch tables name.
Ids dispatched_records(const Store& store) {
  Ids ids;
  for (const DispatchTable& table : store.dispatch_tables()) {
    for (std::string& id : records_of(table)) ids.insert(std::move(id));
  }
  return ids;
}

// Appends the records that a group need not keep.
void drop_surplus(std::vector<Ranked>& group, int keep, const Ids& needed,
                  std::vector<int64_t>& dropped) {
  std::sort(group.begin(), group.end(),
            [](const Ranked& a, const Ranked& b) { return a.rank() < b.rank(); });
  bool has_default = false;
  int kept = 0;
  for (const Ranked& record : group) {
    const bool first_default = record.is_default && !has_default;
    has_default |= record.is_default;
    if (kept < keep) {
      ++kept;
    } else if (!first_default && !needed.contains(record.id)) {
      dropped.push_back(record.rowid);
    }
  }
}

// The rowids of the healthy records that the policy does not keep.
std::vector<int64_t> surplus_records(const StoreImpl& store, const PrunePolicy& policy,
                                     const Ids& needed) {
  std::map<Group, std::vector<Ranked>> groups;
  std::vector<int64_t> dropped;
  RowScan scan(store.connection, table_named("records"), store.version);
  while (scan.next()) {
    if (!scan.problem().empty()) continue;
    const bool valid = cell<std::string>(scan, "verdict") == "valid";
    if (valid && cell<int64_t>(scan, "offline") == 0) {
      const Group group = {cell<std::string>(scan, "workload_hash"),
                           cell<std::string>(scan, "target_hash"), cell<int64_t>(scan, "threads")};
      groups[group].push_back(ranked(scan));
    } else if (valid ? !needed.contains(cell<std::string>(scan, "id")) : !policy.keep_failures) {
      dropped.push_back(scan.rowid());  // a model's ranking can be repeated, a table's records stay
    }
  }
  for (auto& [key, group] : groups) drop_surplus(group, policy.keep_best, needed, dropped);
  return dropped;
}

void drop_rows(const StoreImpl& store, const Table& table, const std::vector<int64_t>& rowids) {
  Statement statement(store.connection,
                      std::string("DELETE FROM ") + table.name + " WHERE rowid = ?1", "pruning");
  for (const int64_t rowid : rowids) statement.bind(1, rowid).run();
}

int64_t drop_damaged(const StoreImpl& store) {
  int64_t count = 0;
  for (const Table& table : fact_tables()) {
    std::vector<int64_t> damaged;
    RowScan scan(store.connection, table, store.version);
    while (scan.next()) {
      if (!scan.problem().empty()) damaged.push_back(scan.rowid());
    }
    drop_rows(store, table, damaged);
    count += static_cast<int64_t>(damaged.size());
  }
  return count;
}

bool is_whole(const Row& dispatch, const Store& facts) {
  try {
    const std::vector<std::string> ids = records_of(dispatch_from_row(dispatch));
    return std::all_of(ids.begin(), ids.end(),
                       [&](const std::string& id) { return bool(facts.record(id)); });
  } catch (const RecordError&) {
    return false;
  }
}

// Drops dispatch tables that name a missing record: nobody can use them.
int64_t drop_broken_dispatch(const StoreImpl& store, const Store& facts) {
  const Table& description = table_named("dispatch");
  std::vector<int64_t> broken;
  RowScan scan(store.connection, description, store.version);
  while (scan.next()) {
    if (!is_whole(scan.row(), facts)) broken.push_back(scan.rowid());
  }
  drop_rows(store, description, broken);
  return static_cast<int64_t>(broken.size());
}

// Drops the rows of `table` that no record refers to, and returns their number.
int64_t drop_orphans(const StoreImpl& store, const char* table, const char* column) {
  const std::string condition =
      std::string(" FROM ") + table + " WHERE hash NOT IN (SELECT " + column + " FROM records)";
  const int64_t count = store.connection.query_integer("SELECT count(*)" + condition, "pruning");
  store.connection.exec("DELETE" + condition, "pruning");
  return count;
}

// Returns freed pages to the file system. The data is complete without it, so a full disk is no
// error.
void shrink(const Connection& connection) {
  try {
    connection.exec("VACUUM", "shrinking it");
  } catch (const DatabaseError& error) {
    if (error.kind() != DatabaseError::Kind::Full) throw;
  }
}

}  // namespace

PruneReport Store::prune(const PrunePolicy& policy) {
  if (policy.keep_best < 1) {
    throw RecordError("prune must keep at least 1 record of each workload, got " +
                      std::to_string(policy.keep_best));
  }
  PruneReport report;
  {
    Transaction transaction = begin();
    report.bytes_before = impl_->bytes();
    if (policy.drop_damaged) {
      report.damaged = drop_damaged(*impl_);
      report.damaged += drop_broken_dispatch(*impl_, *this);
    }
    const std::vector<int64_t> surplus = surplus_records(*impl_, policy, dispatched_records(*this));
    drop_rows(*impl_, table_named("records"), surplus);
    report.records = static_cast<int64_t>(surplus.size());
    report.artifacts = drop_orphans(*impl_, "artifacts", "artifact_hash");
    report.workloads = drop_orphans(*impl_, "workloads", "workload_hash");
    report.targets = drop_orphans(*impl_, "targets", "target_hash");
    for (const char* table : {"origins", "signatures"}) {
      impl_->connection.exec(std::string("DELETE FROM ") + table +
                                 " WHERE artifact_hash NOT IN (SELECT hash FROM artifacts)",
                             "pruning");
    }
    if (!policy.dry_run) transaction.commit();
  }
  if (!policy.dry_run) shrink(impl_->connection);
  report.bytes_after = impl_->bytes();
  return report;
}

}  // namespace tilewright::database
