// Export and import: a header line, then one JSON object with a checksum per row.
#include <istream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/base64.h"
#include "database/merge.h"
#include "database/store.h"
#include "database/store_impl.h"
#include "database/tables/convert.h"

namespace tilewright::database {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "tilewright-database";

Json cell_to_json(const Cell& cell, ColumnType type) {
  if (const auto* integer = std::get_if<int64_t>(&cell)) return *integer;
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const Blob& blob = std::get<Blob>(cell);
  if (type == ColumnType::Doubles) return doubles_from_blob(blob);
  return to_base64({reinterpret_cast<const char*>(blob.data()), blob.size()});
}

std::optional<Blob> blob_from_json(const Json& json, ColumnType type) {
  if (type != ColumnType::Doubles) {
    if (!json.is_string()) return std::nullopt;
    std::optional<std::string> bytes = from_base64(json.get_ref<const std::string&>());
    if (!bytes) return std::nullopt;
    auto* first = reinterpret_cast<const std::byte*>(bytes->data());
    return Blob(first, first + bytes->size());
  }
  if (!json.is_array()) return std::nullopt;
  std::vector<double> values;
  for (const Json& value : json) {
    if (!value.is_number()) return std::nullopt;
    values.push_back(value.get<double>());
  }
  return doubles_to_blob(values);
}

const char* expected(ColumnType type) {
  switch (type) {
    case ColumnType::Integer: return "an integer";
    case ColumnType::Real: return "a number";
    case ColumnType::Text: return "a string";
    case ColumnType::Doubles: return "an array of numbers";
    default: return "base64 text";
  }
}

// Throws RecordError when the value does not have the column's type.
Cell cell_from_json(const Json& json, const Column& column) {
  switch (column.type) {
    case ColumnType::Integer:
      if (json.is_number_integer() && (!json.is_number_unsigned() || json.get<int64_t>() >= 0)) {
        return json.get<int64_t>();
      }
      break;
    case ColumnType::Real:
      if (json.is_number()) return json.get<double>();
      break;
    case ColumnType::Text:
      if (json.is_string()) return json.get<std::string>();
      break;
    default:
      if (auto blob = blob_from_json(json, column.type)) return std::move(*blob);
      break;
  }
  throw RecordError(std::string("'") + column.name + "' must be " + expected(column.type));
}

// A database of an older schema is exported in that schema, so that its checksums stay valid.
void export_table(const StoreImpl& store, const Table& table, std::ostream& out,
                  ExportReport& report) {
  std::string order = "ORDER BY ";
  for (size_t i = 0; i < table.key_columns; ++i) {
    order += std::string(i > 0 ? ", " : "") + table.columns[i].name;
  }
  RowScan scan(store.connection, table, store.version, order);
  while (scan.next()) {
    if (!scan.problem().empty()) {
      report.bad.push_back(bad_row(table, scan));
      continue;
    }
    Json line = {{"table", table.name}};
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const Column& column = table.columns[i];
      if (column.since > store.version) continue;
      line[column.name] = cell_to_json(scan.row()[i], column.type);
    }
    line["checksum"] = row_checksum(table, store.version, scan.row());
    out << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    ++report.rows;
  }
}

Json parse_line(const std::string& text) {
  Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) throw RecordError("expected a JSON object");
  return line;
}

int parse_header(const std::string& text) {
  const Json header = parse_line(text);
  if (header.value("format", Json()) != kFormat || !header.contains("schema") ||
      !header["schema"].is_number_integer()) {
    throw RecordError(std::string("expected the header of an export, {\"format\":\"") + kFormat +
                      "\",\"schema\":…}");
  }
  const auto version = header["schema"].get<int64_t>();
  if (version > kSchemaVersion) {
    throw DatabaseError(DatabaseError::Kind::Newer,
                        "the export has schema version " + std::to_string(version) +
                            ", this tool knows versions up to " + std::to_string(kSchemaVersion) +
                            ": import it with a newer tune-cli");
  }
  if (version < 1) throw RecordError("schema version " + std::to_string(version) + " never was");
  return static_cast<int>(version);
}

const Table& table_of(const Json& line, int version) {
  const auto name = line.find("table");
  if (name == line.end() || !name->is_string()) throw RecordError("'table' must be a string");
  std::string known;
  for (const Table& table : fact_tables()) {
    if (table.since > version) continue;
    if (*name == table.name) return table;
    known += std::string(known.empty() ? "" : ", ") + table.name;
  }
  throw RecordError("unknown table '" + name->get<std::string>() + "', expected one of " + known);
}

Row row_of(const Json& line, const Table& table, int version) {
  Row row;
  for (const Column& column : table.columns) {
    if (column.since > version) {
      row.push_back(default_cell(column.type));
      continue;
    }
    const auto value = line.find(column.name);
    if (value == line.end()) {
      throw RecordError(std::string("'") + column.name + "' is missing from a row of table " +
                        table.name);
    }
    row.push_back(cell_from_json(*value, column));
  }
  return row;
}

void import_line(const StoreImpl& store, const std::string& text, int version, int64_t number,
                 MergeReport& report) {
  const Json line = parse_line(text);
  const Table& table = table_of(line, version);
  const Row row = row_of(line, table, version);
  const auto checksum = line.find("checksum");
  if (checksum == line.end() || !checksum->is_number_integer() ||
      checksum->get<int64_t>() != row_checksum(table, version, row)) {
    report.bad.push_back({table.name, row_name(table, row), number, "the checksum does not match"});
    return;
  }
  const std::string problem = content_problem(table, row);
  if (!problem.empty()) {
    report.bad.push_back({table.name, row_name(table, row), number, problem});
    return;
  }
  join_counted(store.connection, table, store.version, row, report);
}

}  // namespace

ExportReport Store::export_jsonl(std::ostream& out) const {
  ExportReport report;
  SqlTransaction snapshot(impl_->connection, SqlTransaction::Kind::Read);
  out << Json{{"format", kFormat}, {"schema", impl_->version}}.dump() << '\n';
  for (const Table& table : fact_tables()) {
    if (!impl_->has(table)) continue;
    try {
      export_table(*impl_, table, out, report);
    } catch (const DatabaseError& error) {
      report.unreadable.push_back(std::string("table ") + table.name + ": " + error.what());
    }
  }
  out.flush();
  if (!out) {
    throw DatabaseError(DatabaseError::Kind::Full, "the export could not be written after " +
                                                       std::to_string(report.rows) +
                                                       " rows: is the disk full?");
  }
  return report;
}

MergeReport Store::import_jsonl(std::istream& in, const std::string& source) {
  MergeReport report;
  Transaction transaction = begin();
  int version = 0;
  int64_t number = 0;
  std::string text;
  while (std::getline(in, text)) {
    ++number;
    try {
      if (number == 1) {
        version = parse_header(text);
      } else if (!text.empty()) {
        import_line(*impl_, text, version, number, report);
      }
    } catch (const RecordError& error) {
      throw RecordError("line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (number == 0) throw RecordError("the import is empty");
  file_foreign(*impl_, "import", source, report);
  transaction.commit();
  return report;
}

}  // namespace tilewright::database
