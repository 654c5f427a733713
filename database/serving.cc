#include "database/serving.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "database/schema.h"
#include "database/store.h"
#include "database/store_impl.h"

namespace tilewright::database {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kApplicationIdOffset = 68;  // in the header of an SQLite file

// What a serving process may ask for, by key.
struct Selection {
  std::set<std::string> workloads, targets, records, artifacts;
  std::vector<DispatchTable> tables;

  void add(const Record& record) {
    workloads.insert(record.workload_hash);
    targets.insert(record.target.hash);
    records.insert(record.id);
    if (!record.artifact_hash.empty()) artifacts.insert(record.artifact_hash);
  }
};

using Group = std::tuple<std::string, std::string, int>;  // workload, target, threads

// The best of a group, what its dispatch table names, and the latest default with a kernel.
void select_group(const Store& store, const Record& any, const Record* untuned,
                  Selection& selection) {
  BestQuery query = {
      .workload_hash = any.workload_hash, .target = any.target, .threads = any.threads};
  BestResult best = store.best(query);
  if (!best.record) {
    query.allow_offline = true;
    best = store.best(query);
  }
  if (best.record) selection.add(*best.record);
  if (untuned != nullptr) selection.add(*untuned);
  DispatchResult dispatch = store.dispatch(query);
  if (!dispatch.table) return;
  for (const std::string& id : records_of(*dispatch.table)) {
    if (Lookup<Record> record = store.record(id)) selection.add(*record.value);
  }
  selection.tables.push_back(std::move(*dispatch.table));
}

Selection selection_of(const Store& store) {
  std::map<Group, std::pair<Record, std::optional<Record>>> groups;  // any, and the default
  for (Record& record : store.records({.verdict = Verdict::Valid}).records) {
    if (record.artifact_hash.empty()) continue;
    auto& [any, untuned] = groups[{record.workload_hash, record.target.hash, record.threads}];
    any = record;
    if (record.is_default && store.artifact(record.artifact_hash)) untuned = std::move(record);
  }
  Selection selection;
  for (const auto& [key, group] : groups) {
    select_group(store, group.first, group.second ? &*group.second : nullptr, selection);
  }
  return selection;
}

void copy_rows(const StoreImpl& from, const Connection& to, const char* name,
               const std::set<std::string>& keys) {
  const Table& table = table_named(name);
  for (const std::string& key : keys) {
    RowScan scan(from.connection, table, from.version,
                 std::string("WHERE ") + table.columns[0].name + " = ?1");
    scan.statement().bind(1, std::string_view(key));
    if (scan.next() && scan.problem().empty()) join_row(to, table, kSchemaVersion, scan.row());
  }
}

void copy_table(const StoreImpl& from, const Connection& to, const DispatchTable& dispatch) {
  const Table& table = table_named("dispatch");
  RowScan scan(from.connection, table, from.version,
               "WHERE workload_hash = ?1 AND target_hash = ?2 AND threads = ?3");
  scan.statement().bind(1, std::string_view(dispatch.workload_hash));
  scan.statement().bind(2, std::string_view(dispatch.target_hash));
  scan.statement().bind(3, int64_t{dispatch.threads});
  if (scan.next() && scan.problem().empty()) join_row(to, table, kSchemaVersion, scan.row());
}

void write_file(const StoreImpl& from, const Selection& selection, const fs::path& path) {
  const Connection to(path.string(), Connection::Access::Create, std::chrono::seconds(5));
  {
    SqlTransaction transaction(to, SqlTransaction::Kind::Write);
    create_schema(to, kSchemaVersion);
    to.exec("PRAGMA application_id=" + std::to_string(kServingApplicationId),
            "marking it as a serving file");
    copy_rows(from, to, "workloads", selection.workloads);
    copy_rows(from, to, "targets", selection.targets);
    copy_rows(from, to, "artifacts", selection.artifacts);
    copy_rows(from, to, "records", selection.records);
    for (const DispatchTable& table : selection.tables) copy_table(from, to, table);
    transaction.commit();
  }
  to.exec("VACUUM", "shrinking it");
}

// A file beside the one to be written, which vanishes unless it is moved there.
class Draft {
 public:
  explicit Draft(const fs::path& goal)
      : goal_(goal), path_(goal.string() + ".part" + std::to_string(getpid())) {
    remove();
  }
  ~Draft() { remove(); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const fs::path& path() const { return path_; }

  // Nobody sees half a file.
  void publish() {
    std::error_code error;
    fs::permissions(path_, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read,
                    error);
    fs::rename(path_, goal_, error);
    if (error) {
      throw DatabaseError(DatabaseError::Kind::Unwritable,
                          "cannot write '" + goal_.string() + "': " + error.message());
    }
  }

 private:
  void remove() const {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(path_.string() + "-journal", ignored);
  }

  fs::path goal_, path_;
};

void require_place(const Store& store, const fs::path& path) {
  std::error_code ignored;
  if (fs::equivalent(path, store.path(), ignored)) {
    throw DatabaseError(DatabaseError::Kind::Unwritable,
                        "'" + path.string() + "' is the database itself: name another file");
  }
  if (fs::exists(path, ignored) && !is_serving_file(path)) {
    throw DatabaseError(
        DatabaseError::Kind::Unwritable,
        "'" + path.string() + "' is there and is no serving file: name another, or remove it");
  }
}

}  // namespace

bool is_serving_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 4> bytes{};
  if (!in.seekg(kApplicationIdOffset) || !in.read(bytes.data(), bytes.size())) return false;
  uint32_t id = 0;
  for (const char byte : bytes) id = id << 8 | static_cast<unsigned char>(byte);
  return id == static_cast<uint32_t>(kServingApplicationId);
}

ServingReport Store::export_serving(const fs::path& path) const {
  require_place(*this, path);
  Draft draft(path);
  ServingReport report;
  {
    SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
    const Selection selection = selection_of(*this);
    write_file(*impl_, selection, draft.path());
    report = {.workloads = static_cast<int64_t>(selection.workloads.size()),
              .records = static_cast<int64_t>(selection.records.size()),
              .artifacts = static_cast<int64_t>(selection.artifacts.size()),
              .tables = static_cast<int64_t>(selection.tables.size()),
              .bytes = static_cast<int64_t>(fs::file_size(draft.path()))};
  }
  draft.publish();
  return report;
}

}  // namespace tilewright::database
