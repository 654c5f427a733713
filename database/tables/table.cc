#include "database/tables/table.h"

namespace tilewright::database {
namespace {

std::vector<Table> make_fact_tables() {
  using enum ColumnType;
  return {
      {"workloads", 1, 1, nullptr, {{"hash", Text}, {"canonical", Text}, {"op", Text}}},
      {"targets",
       1,
       1,
       nullptr,
       {{"hash", Text},
        {"chip", Text},
        {"features", Text},
        {"cores", Integer},
        {"canonical", Text}}},
      {"artifacts",
       1,
       1,
       nullptr,
       {{"hash", Text},
        {"bytes", ColumnType::Blob},
        {"description", Text},
        {"source", Text},
        {"compiler", Text},
        {"flags", Text}}},
      {"runs",
       1,
       1,
       "updated",
       {{"id", Text},
        {"seed", Integer},
        {"args", Text},
        {"target_hash", Text},
        {"tool_version", Text},
        {"state", Text},
        {"started", Integer},
        {"updated", Integer}}},
      {"models",
       2,
       3,
       "created",
       {{"target_hash", Text, 2},
        {"kind", Text, 2},
        {"feature_version", Integer, 2},
        {"bytes", ColumnType::Blob, 2},
        {"trained_on", Integer, 2},
        {"created", Integer, 2}}},
      {"records",
       1,
       1,
       nullptr,
       {{"id", Text},
        {"workload_hash", Text},
        {"target_hash", Text},
        {"label", Text},
        {"sketch", Text},
        {"sketch_version", Integer},
        {"config", Text},
        {"verdict", Text},
        {"reason", Text},
        {"threads", Integer},
        {"samples", Doubles},
        {"best_seconds", Real},
        {"median_seconds", Real},
        {"features", Floats},
        {"feature_version", Integer},
        {"trial", Integer},
        {"seed", Integer},
        {"run_id", Text},
        {"created", Integer},
        {"tool_version", Text},
        {"compiler_version", Text},
        {"driver_version", Text},
        {"is_default", Integer},
        {"offline", Integer},
        {"artifact_hash", Text},
        {"confirmed", Integer, 2},
        {"points", Text, 4}}},
      {"dispatch",
       3,
       3,
       "created",
       {{"workload_hash", Text, 3},
        {"target_hash", Text, 3},
        {"threads", Integer, 3},
        {"dim", Text, 3},
        {"ranges", Text, 3},
        {"points", Text, 3},
        {"default_record", Text, 3},
        {"one_order", Integer, 3},
        {"tool_version", Text, 3},
        {"created", Integer, 3}}},
      {"signatures",
       5,
       4,
       nullptr,
       {{"artifact_hash", Text, 5},
        {"workload_hash", Text, 5},
        {"public_key", Text, 5},
        {"signature", Text, 5}}},
  };
}

}  // namespace

std::vector<Column> Table::columns_at(int version) const {
  std::vector<Column> result;
  for (const Column& column : columns) {
    if (column.since <= version) result.push_back(column);
  }
  return result;
}

size_t Table::index_of(std::string_view column) const {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == column) return i;
  }
  throw InternalError("table " + std::string(name) + " has no column " + std::string(column));
}

const std::vector<Table>& fact_tables() {
  static const std::vector<Table> tables = make_fact_tables();
  return tables;
}

const Table& meta_table() {
  using enum ColumnType;
  static const Table table = {"meta", 1, 1, nullptr, {{"key", Text}, {"value", Text}}};
  return table;
}

const Table& origins_table() {
  using enum ColumnType;
  static const Table table = {"origins",
                              5,
                              2,
                              nullptr,
                              {{"artifact_hash", Text, 5},
                               {"workload_hash", Text, 5},
                               {"digest", Text, 5},
                               {"origin", Text, 5},
                               {"created", Integer, 5}}};
  return table;
}

const Table& parts_table() {
  using enum ColumnType;
  static const Table table = {
      "parts", 1, 1, nullptr, {{"name", Text}, {"bytes", tilewright::database::ColumnType::Blob}}};
  return table;
}

std::vector<const Table*> all_tables() {
  std::vector<const Table*> tables = {&meta_table(), &origins_table()};
  for (const Table& table : fact_tables()) tables.push_back(&table);
  return tables;
}

const Table& table_named(std::string_view name) {
  for (const Table& table : fact_tables()) {
    if (table.name == name) return table;
  }
  throw InternalError("no table is named " + std::string(name));
}

Cell default_cell(ColumnType type) {
  using enum ColumnType;
  switch (type) {
    case Integer: return int64_t{0};
    case Real: return 0.0;
    case Text: return std::string();
    default: return tilewright::database::Blob();
  }
}

bool cell_fits(const Cell& cell, ColumnType type) {
  return cell.index() == default_cell(type).index();
}

}  // namespace tilewright::database
