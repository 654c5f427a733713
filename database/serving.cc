#include "database/serving.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/utf8.h"
#include "database/schema.h"
#include "database/store.h"
#include "database/store_impl.h"
#include "database/trust/vouch.h"

namespace tilewright::database {
namespace {

namespace fs = std::filesystem;

constexpr size_t kApplicationIdOffset = 68;  // in the header of an SQLite file

// The rows that a serving process may need, by key.
struct Selection {
  std::set<std::string> workloads, targets, records, artifacts;
  std::set<std::pair<std::string, std::string>> kernels;  // artifact and workload
  std::vector<DispatchTable> tables;

  void add(const Record& record) {
    workloads.insert(record.workload_hash);
    targets.insert(record.target.hash);
    records.insert(record.id);
  }
  void add_kernel(const Record& record) {
    add(record);
    if (record.artifact_hash.empty()) return;
    artifacts.insert(record.artifact_hash);
    kernels.insert({record.artifact_hash, record.workload_hash});
  }
};

using ServedGroup = std::tuple<std::string, std::string, int>;  // workload, target, threads

// The record that was chosen for a group, if there is one.
std::optional<Record> chosen_record(const Store& store, const ServingContent& content,
                                    const Record& any) {
  const auto id = content.chosen.find(any.workload_hash);
  if (id == content.chosen.end()) return std::nullopt;
  std::optional<Record> record = store.record(id->second).value;
  if (!record || record->threads != any.threads || record->target.hash != any.target.hash) {
    return std::nullopt;
  }
  return record;
}

// Selects the best or the chosen record of a group, the records of its dispatch table, and the
// latest default with a kernel.
void select_group(const Store& store, const ServingContent& content, const Record& any,
                  const Record* untuned, Selection& selection) {
  BestQuery query = {
      .workload_hash = any.workload_hash, .target = any.target, .threads = any.threads};
  std::optional<Record> best = chosen_record(store, content, any);
  if (!best) best = store.best(query).record;
  if (!best) {
    query.allow_offline = true;
    best = store.best(query).record;
  }
  if (best) selection.add_kernel(*best);
  if (untuned != nullptr) selection.add_kernel(*untuned);
  DispatchResult dispatch = store.dispatch(query);
  if (!dispatch.table) return;
  for (const std::string& id : records_of(*dispatch.table)) {
    const Lookup<Record> record = store.record(id);
    if (!record) continue;
    // The table's default may be a kernel that must not run; the table remains usable.
    if (store.artifact(*record.value)) {
      selection.add_kernel(*record.value);
    } else {
      selection.add(*record.value);
    }
  }
  selection.tables.push_back(std::move(*dispatch.table));
}

Selection selection_of(const Store& store, const ServingContent& content) {
  std::map<ServedGroup, std::pair<Record, std::optional<Record>>>
      groups;  // any record, and the default
  for (Record& record : store.records({.verdict = Verdict::Valid}).records) {
    if (record.artifact_hash.empty()) continue;
    if (content.workloads && !content.workloads->contains(record.workload_hash)) continue;
    auto& [any, untuned] = groups[{record.workload_hash, record.target.hash, record.threads}];
    any = record;
    // A reader takes confirmed records first.
    const bool outranks = record.confirmed && content.chosen.contains(record.workload_hash);
    if (record.is_default && !outranks && store.artifact(record)) untuned = std::move(record);
  }
  Selection selection;
  for (const auto& [key, group] : groups) {
    select_group(store, content, group.first, group.second ? &*group.second : nullptr, selection);
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
               "WHERE workload_hash = ?1 AND threads = ?2 AND created = ?3 AND " +
                   in_stored_targets(from, "target_hash", dispatch.target_hash));
  scan.statement().bind(1, std::string_view(dispatch.workload_hash));
  scan.statement().bind(2, int64_t{dispatch.threads}).bind(3, dispatch.created);
  if (scan.next() && scan.problem().empty()) join_row(to, table, kSchemaVersion, scan.row());
}

// The exporting user owns the file: its kernels may run where it is installed as a trusted file.
void vouch_for_kernels(const StoreImpl& from, const Connection& to, const Selection& selection) {
  const std::string origin =
      "came by export from '" + to_utf8(from.connection.path()) + "' " + today();
  const Table& signatures = table_named("signatures");
  for (const auto& [artifact, workload] : selection.kernels) {
    const Lookup<Row> row = find_row(from, "artifacts", artifact);
    if (!row) continue;
    vouch(to, kSchemaVersion, artifact, workload, code_digest(*row.value), origin);
    if (!from.has(signatures)) continue;
    RowScan scan(from.connection, signatures, from.version,
                 "WHERE artifact_hash = ?1 AND workload_hash = ?2");
    scan.statement().bind(1, std::string_view(artifact)).bind(2, std::string_view(workload));
    while (scan.next()) {
      if (scan.problem().empty()) join_row(to, signatures, kSchemaVersion, scan.row());
    }
  }
}

void write_part(const Connection& to, const std::string& name, const std::string& bytes) {
  const auto* first = reinterpret_cast<const Blob::value_type*>(bytes.data());
  replace_row(to, parts_table(), kSchemaVersion, {name, Blob(first, first + bytes.size())});
}

void write_parts(const Connection& to, const ServingContent& content) {
  if (content.parts.empty()) return;
  create_parts_table(to);
  for (const auto& [name, bytes] : content.parts) write_part(to, name, *bytes);
}

void write_file(const StoreImpl& from, const Selection& selection, const ServingContent& content,
                const fs::path& path) {
  const Connection to(path.string(), Connection::Access::Create, std::chrono::seconds(5));
  // A page is a read: large values of a model file take few.
  if (!content.parts.empty()) to.exec("PRAGMA page_size=16384", "choosing its pages");
  {
    SqlTransaction transaction(to, SqlTransaction::Kind::Write);
    create_schema(to, kSchemaVersion);
    to.exec("PRAGMA application_id=" + std::to_string(kServingApplicationId),
            "marking it as a serving file");
    copy_rows(from, to, "workloads", selection.workloads);
    for (const std::string& target : selection.targets) {
      const std::vector<std::string> stored = stored_targets(from, target);
      copy_rows(from, to, "targets", {stored.begin(), stored.end()});
    }
    copy_rows(from, to, "artifacts", selection.artifacts);
    copy_rows(from, to, "records", selection.records);
    for (const DispatchTable& table : selection.tables) copy_table(from, to, table);
    vouch_for_kernels(from, to, selection);
    write_parts(to, content);
    transaction.commit();
  }
  if (content.index) {
    // A chosen kernel is not always the best of the store that it comes from.
    const Store made = Store::open(path, Mode::ReadOnly);
    if (made.distrust().empty()) {
      write_part(to, content.index_name, content.index(made, selection.artifacts));
    }
  }
  to.exec("VACUUM", "shrinking it");
}

// A file beside the destination that is removed unless it is moved there.
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

  // Moves the complete file into place, so that nobody sees half a file.
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

bool is_serving_file(const Blob& bytes) {
  if (bytes.size() < kApplicationIdOffset + 4) return false;
  uint32_t id = 0;
  for (size_t i = 0; i < 4; ++i) {
    id = id << 8 | static_cast<uint32_t>(bytes[kApplicationIdOffset + i]);
  }
  return id == static_cast<uint32_t>(kServingApplicationId);
}

bool is_serving_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;  // opening a FIFO would wait
  std::ifstream in(path, std::ios::binary);
  Blob bytes(kApplicationIdOffset + 4);
  auto* first = reinterpret_cast<char*>(bytes.data());
  if (!in.read(first, static_cast<std::streamsize>(bytes.size()))) return false;
  return is_serving_file(bytes);
}

bool Store::has_parts() const {
  return impl_->connection.query_integer(
             "SELECT count(*) FROM sqlite_schema WHERE name = 'parts' AND type = 'table'",
             "reading the list of tables") > 0;
}

Lookup<std::string> Store::part(const std::string& name) const {
  if (!has_parts())
    return {std::nullopt, "'" + path() + "' is no model file, as 'tune-cli compile' makes them"};
  RowScan scan(impl_->connection, parts_table(), impl_->version, "WHERE name = ?1");
  scan.statement().bind(1, std::string_view(name));
  const std::string said = "part '" + name + "' of '" + path() + "'";
  if (!scan.next()) return {std::nullopt, said + " is missing"};
  if (!scan.problem().empty()) return {std::nullopt, said + " is damaged: " + scan.problem()};
  const Blob& bytes = std::get<Blob>(scan.row()[1]);
  return {std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), ""};
}

std::string Store::read_part(const std::string& name, std::span<std::byte> place) const {
  // SQLite takes longer to find a value twice than to copy less.
  constexpr size_t kLarge = size_t{1} << 16;
  const std::string said = "part '" + name + "' of '" + path() + "'";
  Statement found(impl_->connection,
                  "SELECT name, checksum, rowid, length(bytes), "
                  "CASE WHEN length(bytes) < " +
                      std::to_string(kLarge) + " THEN bytes END FROM parts WHERE name = ?1",
                  "reading a part");
  found.bind(1, std::string_view(name));
  if (!found.step()) return said + " is missing";
  const int64_t bytes = found.integer(3);
  if (bytes != static_cast<int64_t>(place.size())) {
    return said + " is damaged: it has " + std::to_string(bytes) + " bytes, and the program says " +
           std::to_string(place.size());
  }
  const auto small = found.blob(4);
  if (small && small->size() == place.size()) {
    std::copy(small->begin(), small->end(), place.begin());
  } else if (place.size() >= kLarge) {
    impl_->connection.read_blob("parts", "bytes", found.integer(2), place, "reading a part");
  } else {
    return said + " is damaged: a column holds another type";
  }
  Canonical row;
  row.text(parts_table().name);
  row.text(name);
  if (found.cell(0) != Cell(name) ||
      found.cell(1) != Cell(static_cast<int64_t>(row.checksum_before(place)))) {
    return said + " is damaged: the checksum does not match";
  }
  return "";
}

ServingReport Store::export_serving(const fs::path& path, const ServingContent& content) const {
  require_place(*this, path);
  Draft draft(path);
  ServingReport report;
  {
    SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
    const Selection selection = selection_of(*this, content);
    write_file(*impl_, selection, content, draft.path());
    report = {.workloads = static_cast<int64_t>(selection.workloads.size()),
              .records = static_cast<int64_t>(selection.records.size()),
              .artifacts = static_cast<int64_t>(selection.artifacts.size()),
              .tables = static_cast<int64_t>(selection.tables.size()),
              .bytes = static_cast<int64_t>(fs::file_size(draft.path())),
              .sha256 = sha256(read_regular_file(draft.path()))};
  }
  draft.publish();
  return report;
}

}  // namespace tilewright::database
