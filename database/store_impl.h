// The open file of a Store, shared by the files that implement its methods.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "database/report.h"
#include "database/store.h"
#include "database/tables/row.h"
#include "database/tables/sqlite.h"

namespace tilewright::database {

class StoreImpl {
 public:
  StoreImpl(Connection connection, int version, bool read_only, std::string distrust = "",
            std::vector<std::string> keys = {})
      : connection(std::move(connection)), version(version), read_only(read_only),
        distrust(std::move(distrust)), keys(std::move(keys)) {}

  // Throws the Unwritable error when the store was opened read-only.
  void require_writable() const;

  // The size of the file, including what the open transaction adds to it.
  int64_t bytes() const;

  bool has(const Table& table) const { return table.since <= version; }

  Connection connection;
  int version;
  bool read_only;
  std::string distrust;           // why others may decide the file's content
  std::vector<std::string> keys;  // kernels that these keys signed may run
  bool serving = false;           // a serving file: one export wrote it, and nothing changes it
};

BadRow bad_row(const Table& table, const RowScan& scan);

// The defect of a forged row that its checksum would not reveal; empty: none. Artifacts are named
// by their content, and a dispatch table has a structure of its own.
std::string content_problem(const Table& table, const Row& row);

// The reason why a healthy record does not match the query. Empty if it does; `artifact` then holds
// the requested artifact.
std::string unusable(const Store& store, const Record& record, const BestQuery& query,
                     std::optional<Artifact>& artifact);

// Opens an existing file for reading, whatever its schema version.
StoreImpl open_for_reading(const std::filesystem::path& path,
                           std::chrono::milliseconds busy_timeout, const Trust& trust = {});

// The row of a table with a one-column key, or the reason why there is none.
Lookup<Row> find_row(const StoreImpl& store, const char* table_name, const std::string& key);

// The hashes under which the file keeps what is found under `hash`: that one, and those of targets
// that an earlier version told apart (identity_today).
std::vector<std::string> stored_targets(const StoreImpl& store, const std::string& hash);
// "COLUMN IN ('…', …)" of these, for SQL.
std::string in_stored_targets(const StoreImpl& store, const char* column, const std::string& hash);

// Under which hash a target is found that the file keeps under `stored`.
std::string target_hash_today(const StoreImpl& store, const std::string& stored);

// Completes records with their workload and target, each read and verified once.
class RecordCompleter {
 public:
  explicit RecordCompleter(const StoreImpl& store) : store_(&store) {}

  // Fills in the fields that other rows hold. Returns the reason for a failure, or an empty string.
  std::string complete(Record& record);

 private:
  struct Workload {
    std::string canonical;
    std::string op;
  };

  const Lookup<Workload>& workload(const std::string& hash);
  const Lookup<TargetIdentity>& target(const std::string& hash);

  const StoreImpl* store_;
  std::map<std::string, Lookup<Workload>> workloads_;
  std::map<std::string, Lookup<TargetIdentity>> targets_;
};

// Advances a scan of the records table to the next usable record that matches the filter, and
// completes it. Damaged records are added to `skipped`.
bool next_record(RowScan& scan, RecordCompleter& completer, const RecordFilter& filter,
                 std::vector<BadRow>& skipped, Record& record);

}  // namespace tilewright::database
