// Checks the whole file, and reports its contents in numbers.
#include <algorithm>
#include <set>

#include "base/utf8.h"
#include "database/serving.h"
#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/convert.h"
#include "database/tables/dispatch_row.h"

namespace tilewright::database {
std::string content_problem(const Table& table, const Row& row) {
  const std::string_view name = table.name;
  try {
    if (name == "dispatch") dispatch_from_row(row);
    if (name != "artifacts") return "";
    const Row again = artifact_row(artifact_from_row(row));
    return again[0] == row[0] ? "" : "its hash is not that of its content";
  } catch (const RecordError& error) {
    return error.what();
  }
}

namespace {

void check_structure(const StoreImpl& store, CheckReport& report) {
  try {
    Statement statement(store.connection, "PRAGMA integrity_check(100)", "checking its structure");
    while (statement.step()) {
      const Cell line = statement.cell(0);
      const auto* text = std::get_if<std::string>(&line);
      if (text != nullptr && *text != "ok") report.structure.push_back(to_utf8(*text));
    }
  } catch (const DatabaseError& error) {
    report.structure.push_back(error.what());
  }
}

// The keys of the healthy rows, by table: the rows that other rows may refer to.
using Keys = std::map<std::string, std::set<std::string>>;

void check_rows(const StoreImpl& store, const Table& table, CheckReport& report, Keys& keys) {
  try {
    RowScan scan(store.connection, table, store.version, "NOT INDEXED");
    while (scan.next()) {
      ++report.checked[table.name];
      BadRow bad = bad_row(table, scan);
      if (bad.problem.empty()) bad.problem = content_problem(table, scan.row());
      if (bad.problem.empty()) {
        keys[table.name].insert(bad.key);
      } else {
        report.rows.push_back(std::move(bad));
      }
    }
  } catch (const DatabaseError& error) {
    report.structure.push_back(std::string("table ") + table.name + ": " + error.what());
  }
}

void check_reference(const Table& table, const RowScan& scan, const char* to,
                     const std::string& key, Keys& keys, CheckReport& report) {
  if (key.empty() || keys[to].contains(key)) return;
  BadRow bad = bad_row(table, scan);
  bad.problem = std::string("its row ") + key + " in table " + to + " is missing or damaged";
  report.dangling.push_back(std::move(bad));
}

void check_dispatch(const StoreImpl& store, CheckReport& report, Keys& keys) {
  const Table& table = table_named("dispatch");
  if (!store.has(table)) return;
  try {
    RowScan scan(store.connection, table, store.version, "NOT INDEXED");
    while (scan.next()) {
      if (!scan.problem().empty() || !content_problem(table, scan.row()).empty()) continue;
      const DispatchTable dispatch = dispatch_from_row(scan.row());
      check_reference(table, scan, "workloads", dispatch.workload_hash, keys, report);
      check_reference(table, scan, "targets", dispatch.target_hash, keys, report);
      for (const std::string& id : records_of(dispatch)) {
        check_reference(table, scan, "records", id, keys, report);
      }
    }
  } catch (const DatabaseError&) {
    // check_rows has already reported the same damage.
  }
}

void check_records(const StoreImpl& store, CheckReport& report, Keys& keys) {
  struct Reference {
    const char* column;
    const char* table;
  };
  constexpr Reference kReferences[] = {
      {"workload_hash", "workloads"}, {"target_hash", "targets"}, {"artifact_hash", "artifacts"}};
  const Table& records = table_named("records");
  try {
    RowScan scan(store.connection, records, store.version, "NOT INDEXED");
    while (scan.next()) {
      if (!scan.problem().empty()) continue;
      for (const Reference& reference : kReferences) {
        const auto& key = std::get<std::string>(scan.row()[records.index_of(reference.column)]);
        check_reference(records, scan, reference.table, key, keys, report);
      }
    }
  } catch (const DatabaseError&) {
    // check_rows has already reported the same damage.
  }
}

}  // namespace

CheckReport Store::check() const {
  CheckReport report;
  Keys keys;
  try {
    SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
    check_structure(*impl_, report);
    for (const Table* table : all_tables()) {
      if (impl_->has(*table)) check_rows(*impl_, *table, report, keys);
    }
    if (has_parts()) check_rows(*impl_, parts_table(), report, keys);
    check_records(*impl_, report, keys);
    check_dispatch(*impl_, report, keys);
  } catch (const DatabaseError& error) {
    report.structure.push_back(error.what());
  }
  return report;
}

Info Store::info() const {
  SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
  Info info;
  info.path = path();
  info.schema_version = impl_->version;
  info.serving = is_serving_file(path());
  info.bytes = impl_->bytes();
  std::set<std::string> tools;
  for (const Table& table : fact_tables()) {
    if (!impl_->has(table)) continue;
    int64_t& count = info.rows[table.name];
    RowScan scan(impl_->connection, table, impl_->version);
    while (scan.next()) {
      ++count;
      if (!scan.problem().empty()) {
        info.bad.push_back(bad_row(table, scan));
      } else if (std::string_view(table.name) == "targets") {
        TargetIdentity target = target_from_row(scan.row());
        if (std::count(info.targets.begin(), info.targets.end(), target) == 0) {
          info.targets.push_back(std::move(target));
        }
      } else if (std::string_view(table.name) == "records") {
        tools.insert(std::get<std::string>(scan.row()[table.index_of("tool_version")]));
      }
    }
  }
  info.distrust = impl_->distrust;
  std::set<std::pair<std::string, std::string>> kernels;
  for (const Record& record : records({.verdict = Verdict::Valid}).records) {
    if (record.artifact_hash.empty()) continue;
    if (!kernels.insert({record.artifact_hash, record.workload_hash}).second) continue;
    ++info.kernels;
    if (artifact(record)) ++info.runnable;
  }
  info.tool_versions.assign(tools.begin(), tools.end());
  info.workloads = workloads();
  return info;
}

}  // namespace tilewright::database
