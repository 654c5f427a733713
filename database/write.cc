// The store's methods that add facts.
#include <unistd.h>

#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/checksum.h"
#include "database/tables/convert.h"
#include "database/trust/vouch.h"

namespace tilewright::database {
namespace {

// A chip may have several names (chip_model): the one that was stored first stays.
bool same_named(const Table& table, Row a, Row b) {
  if (table.name == std::string_view("targets"))
    a[table.index_of("chip")] = b[table.index_of("chip")];
  return a == b;
}

// Inserts a workload or target. Its hash names its text, so another text under the same hash is an
// error.
void join_named(const StoreImpl& store, const char* table_name, const Row& row) {
  const Table& table = table_named(table_name);
  {
    RowScan present(store.connection, table, store.version, "WHERE hash = ?1");
    present.statement().bind(1, row[0]);
    if (present.next() && present.problem().empty()) {
      if (same_named(table, present.row(), row)) return;
      throw RecordError("the hash " + row_name(table, row) + " in table " + table_name +
                        " already names another text: a hash must be made from the canonical text");
    }
  }
  join_row(store.connection, table, store.version, row);
}

std::string insert_one(const StoreImpl& store, const Record& record) {
  const Row row = record_row(record);
  join_named(store, "workloads", workload_row(record));
  join_named(store, "targets", target_row(record.target));
  join_row(store.connection, table_named("records"), store.version, row);
  if (!record.artifact_hash.empty()) {
    vouch_for_record(store, record.artifact_hash, record.workload_hash);
  }
  return std::get<std::string>(row[0]);
}

}  // namespace

std::string Store::insert(const Record& record) {
  Transaction transaction = begin();
  std::string id = insert_one(*impl_, record);
  transaction.commit();
  return id;
}

std::vector<std::string> Store::insert(std::span<const Record> records) {
  Transaction transaction = begin();
  std::vector<std::string> ids;
  for (const Record& record : records) ids.push_back(insert_one(*impl_, record));
  transaction.commit();
  return ids;
}

std::string content_hash(const Artifact& artifact) {
  return std::get<std::string>(artifact_row(artifact)[0]);
}

std::string content_hash(const Record& record) {
  if (record.created == 0) throw RecordError("a record without its time has no id yet");
  return std::get<std::string>(record_row(record)[0]);
}

std::string Store::put_artifact(const Artifact& artifact) {
  Transaction transaction = begin();
  const Row row = artifact_row(artifact);
  std::string hash = std::get<std::string>(row[0]);
  // Another row under this hash is damaged, or was forged to collide with it.
  const Lookup<Row> present = find_row(*impl_, "artifacts", hash);
  if (!present || *present.value != row) {
    replace_row(impl_->connection, table_named("artifacts"), impl_->version, row);
  }
  vouch(impl_->connection, impl_->version, hash, "", code_digest(row), "made here");
  transaction.commit();
  return hash;
}

void Store::put_model(const Model& model) {
  Transaction transaction = begin();
  replace_row(impl_->connection, table_named("models"), impl_->version, model_row(model));
  transaction.commit();
}

std::string Store::begin_run(TuningRun run) {
  Transaction transaction = begin();
  if (run.started == 0) run.started = now_microseconds();
  run.updated = run.started;
  run.state = RunState::Running;
  run.id.clear();
  // The process id distinguishes runs with equal arguments that start in the same microsecond.
  Canonical content = canonical_row(table_named("runs"), impl_->version, run_row(run));
  content.integer(getpid());
  run.id = content.hash();
  join_row(impl_->connection, table_named("runs"), impl_->version, run_row(run));
  transaction.commit();
  return run.id;
}

void Store::change_run(const std::string& id, const std::function<void(TuningRun&)>& change) {
  Transaction transaction = begin();
  Lookup<TuningRun> found = run(id);
  if (!found) throw RecordError(found.miss);
  change(*found.value);
  found.value->updated = std::max(now_microseconds(), found.value->updated + 1);
  replace_row(impl_->connection, table_named("runs"), impl_->version, run_row(*found.value));
  transaction.commit();
}

void Store::set_run_state(const std::string& id, RunState state) {
  change_run(id, [state](TuningRun& run) { run.state = state; });
}

void Store::set_run_args(const std::string& id, const std::string& args) {
  change_run(id, [&args](TuningRun& run) { run.args = args; });
}

}  // namespace tilewright::database
