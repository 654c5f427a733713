#include "database/schema.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "database/serving.h"
#include "database/tables/row.h"
#include "database/tables/table.h"
#include "database/trust/vouch.h"

namespace tilewright::database {
namespace {

const char* sql_type(ColumnType type) {
  switch (type) {
    case ColumnType::Integer: return "INTEGER NOT NULL DEFAULT 0";
    case ColumnType::Real: return "REAL NOT NULL DEFAULT 0.0";
    case ColumnType::Text: return "TEXT NOT NULL DEFAULT ''";
    default: return "BLOB NOT NULL DEFAULT x''";
  }
}

void create_table(const Connection& connection, const Table& table, int version) {
  std::string columns;
  for (const Column& column : table.columns_at(version)) {
    columns += std::string(column.name) + " " + sql_type(column.type) + ", ";
  }
  std::string key;
  for (size_t i = 0; i < table.key_columns; ++i) {
    key += std::string(i == 0 ? "" : ", ") + table.columns[i].name;
  }
  connection.exec(std::string("CREATE TABLE ") + table.name + " (" + columns +
                      "checksum INTEGER NOT NULL, PRIMARY KEY (" + key + ")) STRICT",
                  "creating the tables");
}

// The indexes that each version adds to those of the versions before it.
const char* index_sql(int version) {
  switch (version) {
    case 1:
      return "CREATE INDEX workloads_by_op ON workloads (op);"
             "CREATE INDEX records_by_rank ON records"
             " (workload_hash, target_hash, verdict, median_seconds, trial, id);"
             "CREATE INDEX records_by_run ON records (run_id, trial);"
             "CREATE INDEX runs_by_time ON runs (updated);";
    case 2:
      return "DROP INDEX records_by_rank;"
             "CREATE INDEX records_by_rank ON records"
             " (workload_hash, target_hash, verdict, confirmed DESC, median_seconds, trial, id);";
    case 3:  // dispatch tables are found by their key
    case 4:  // records got a column that needs no index
    case 5:  // signatures and origins are found by their keys
      return "";
    default:
      throw InternalError("no indexes are defined for schema version " + std::to_string(version));
  }
}

void set_version(const Connection& connection, int version) {
  replace_row(connection, meta_table(), version,
              {std::string("schema_version"), std::to_string(version)});
  connection.exec("PRAGMA user_version=" + std::to_string(version), "setting the schema version");
}

// Gives every healthy row the checksum of the new version. A damaged row keeps its old checksum,
// which matches neither the old row nor the longer new one.
void renew_checksums(const Connection& connection, const Table& table, int version) {
  std::vector<std::pair<int64_t, int64_t>> renewed;
  RowScan scan(connection, table, version - 1);
  while (scan.next()) {
    if (!scan.problem().empty()) continue;
    renewed.emplace_back(scan.rowid(), row_checksum(table, version, scan.row()));
  }
  Statement update(connection,
                   std::string("UPDATE ") + table.name + " SET checksum = ?1 WHERE rowid = ?2",
                   "migrating the schema");
  for (const auto& [rowid, checksum] : renewed) update.bind(1, checksum).bind(2, rowid).run();
}

void add_columns(const Connection& connection, const Table& table, int version) {
  bool changed = false;
  for (const Column& column : table.columns) {
    if (column.since != version) continue;
    connection.exec(std::string("ALTER TABLE ") + table.name + " ADD COLUMN " + column.name + " " +
                        sql_type(column.type),
                    "migrating the schema");
    changed = true;
  }
  if (changed) renew_checksums(connection, table, version);
}

// Migrates one step, from `version - 1` to `version`.
void step_to(const Connection& connection, int version) {
  for (const Table* table : all_tables()) {
    if (table->since == version) create_table(connection, *table, version);
    if (table->since < version) add_columns(connection, *table, version);
  }
  connection.exec(index_sql(version), "migrating the schema");
  set_version(connection, version);
}

// Checks the version in the meta table, which must agree with the header. Otherwise a flipped bit
// in the header could make an old file look new, or repeat a finished migration.
void check_meta(const Connection& connection, int version) {
  RowScan scan(connection, meta_table(), version, "WHERE key = 'schema_version'");
  if (!scan.next()) connection.damaged("the meta table has no schema version");
  if (!scan.problem().empty()) connection.damaged("meta row schema_version: " + scan.problem());
  const std::string& stored = std::get<std::string>(scan.row()[1]);
  if (stored != std::to_string(version)) {
    connection.damaged("its header says schema version " + std::to_string(version) +
                       ", its meta table " + stored);
  }
}

// SQLite notices whole pages missing from the end, but accepts a partial last page.
void check_size(const Connection& connection) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(connection.path(), error);
  if (error) return;  // in memory
  const int64_t page = connection.query_integer("PRAGMA page_size", "reading the header");
  const int64_t surplus = static_cast<int64_t>(bytes) % page;
  if (surplus != 0) {
    connection.damaged("its last page has only " + std::to_string(surplus) + " of " +
                       std::to_string(page) + " bytes");
  }
}

}  // namespace

void create_schema(const Connection& connection, int version) {
  connection.exec("PRAGMA application_id=" + std::to_string(kApplicationId), "creating the tables");
  for (int step = 1; step <= version; ++step) step_to(connection, step);
}

void create_parts_table(const Connection& connection) {
  create_table(connection, parts_table(), kSchemaVersion);
}

int read_schema_version(const Connection& connection) {
  using Kind = DatabaseError::Kind;
  // One read transaction ensures that no writer changes the two values while they are compared.
  SqlTransaction snapshot(connection, SqlTransaction::Kind::Read);
  const int64_t application =
      connection.query_integer("PRAGMA application_id", "reading the header");
  const int64_t version = connection.query_integer("PRAGMA user_version", "reading the header");
  if (application != kApplicationId && application != kServingApplicationId) {
    const int64_t tables = connection.query_integer("SELECT count(*) FROM sqlite_schema",
                                                    "reading the list of tables");
    if (application == 0 && version == 0 && tables == 0) return 0;
    throw DatabaseError(Kind::NotADatabase,
                        "'" + connection.path() +
                            "' is a SQLite database, but not one of Tilewright's (application id " +
                            std::to_string(application) + ", expected " +
                            std::to_string(kApplicationId) + ")");
  }
  if (version > kSchemaVersion) {
    throw DatabaseError(Kind::Newer, "database '" + connection.path() + "' has schema version " +
                                         std::to_string(version) +
                                         ", this tool knows versions up to " +
                                         std::to_string(kSchemaVersion) +
                                         ": use the newer tune-cli that wrote it, or import what "
                                         "that one exports into a new database");
  }
  if (version < 1) connection.damaged("its schema version is " + std::to_string(version));
  check_size(connection);
  check_meta(connection, static_cast<int>(version));
  return static_cast<int>(version);
}

void migrate_schema(const Connection& connection, int version, const std::string& distrust) {
  for (int step = version + 1; step <= kSchemaVersion; ++step) step_to(connection, step);
  if (version < origins_table().since) vouch_for_all(connection, kSchemaVersion, distrust);
}

}  // namespace tilewright::database
