#include "database/tables/row.h"

#include "base/utf8.h"

namespace tilewright::database {
namespace {

std::string column_list(const std::vector<Column>& columns) {
  std::string list;
  for (const Column& column : columns) {
    list += column.name;
    list += ", ";
  }
  return list;
}

std::string key_condition(const Table& table) {
  std::string condition;
  for (size_t i = 0; i < table.key_columns; ++i) {
    condition += i == 0 ? "WHERE " : " AND ";
    condition += table.columns[i].name;
    condition += " = ?" + std::to_string(i + 1);
  }
  return condition;
}

void bind_key(Statement& statement, const Table& table, const Row& row) {
  for (size_t i = 0; i < table.key_columns; ++i) statement.bind(static_cast<int>(i) + 1, row[i]);
}

void insert_row(const Connection& connection, const Table& table, int version, const Row& row) {
  std::string names;
  std::string marks;
  int count = 0;
  for (const Column& column : table.columns_at(version)) {
    names += std::string(column.name) + ", ";
    marks += "?" + std::to_string(++count) + ", ";
  }
  Statement statement(connection,
                      std::string("INSERT INTO ") + table.name + " (" + names +
                          "checksum) VALUES (" + marks + "?" + std::to_string(count + 1) + ")",
                      "storing a row");
  int parameter = 0;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].since <= version) statement.bind(++parameter, row[i]);
  }
  statement.bind(count + 1, row_checksum(table, version, row));
  statement.run();
}

void delete_key(const Connection& connection, const Table& table, const Row& row) {
  Statement statement(connection,
                      std::string("DELETE FROM ") + table.name + " " + key_condition(table),
                      "replacing a row");
  bind_key(statement, table, row);
  statement.run();
}

// True when `candidate` wins over `present`; both are healthy and have the same key. This is a
// total order: the table's precedence first, then the checksum, which is the same everywhere.
bool wins(const Table& table, const Row& candidate, const Row& present) {
  if (table.precedence != nullptr) {
    const size_t column = table.index_of(table.precedence);
    if (candidate[column] != present[column]) return candidate[column] > present[column];
  }
  return row_checksum(table, kSchemaVersion, candidate) >
         row_checksum(table, kSchemaVersion, present);
}

}  // namespace

Canonical canonical_row(const Table& table, int version, const Row& row) {
  Canonical canonical;
  canonical.text(table.name);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].since > version) continue;
    if (const auto* integer = std::get_if<int64_t>(&row[i])) {
      canonical.integer(*integer);
    } else if (const auto* real = std::get_if<double>(&row[i])) {
      canonical.real(*real);
    } else if (const auto* text = std::get_if<std::string>(&row[i])) {
      canonical.text(*text);
    } else if (const auto* blob = std::get_if<Blob>(&row[i])) {
      canonical.blob(*blob);
    } else {
      canonical.text("NULL");  // never stored; RowScan rejects it before it compares checksums
    }
  }
  return canonical;
}

int64_t row_checksum(const Table& table, int version, const Row& row) {
  return static_cast<int64_t>(canonical_row(table, version, row).checksum());
}

std::string row_name(const Table& table, const Row& row) {
  std::string name;
  for (size_t i = 0; i < table.key_columns; ++i) {
    if (i > 0) name += "/";
    if (const auto* text = std::get_if<std::string>(&row[i])) {
      name += *text;
    } else if (const auto* integer = std::get_if<int64_t>(&row[i])) {
      name += std::to_string(*integer);
    }
  }
  return name;
}

RowScan::RowScan(const Connection& connection, const Table& table, int version,
                 const std::string& rest)
    : table_(&table), version_(version), stored_(table.columns_at(version)),
      statement_(
          connection,
          "SELECT " + column_list(stored_) + "checksum, rowid FROM " + table.name + " " + rest,
          "reading rows") {}

bool RowScan::next() {
  if (!statement_.step()) return false;
  row_.clear();
  int column = 0;
  for (const Column& each : table_->columns) {
    row_.push_back(each.since <= version_ ? statement_.cell(column++) : default_cell(each.type));
  }
  rowid_ = statement_.integer(column + 1);
  verify(statement_.cell(column));
  return true;
}

void RowScan::verify(const Cell& stored_checksum) {
  problem_.clear();
  for (size_t i = 0; i < row_.size(); ++i) {
    if (!cell_fits(row_[i], table_->columns[i].type)) {
      problem_ = std::string("column ") + table_->columns[i].name + " holds another type";
      return;
    }
  }
  const auto* stored = std::get_if<int64_t>(&stored_checksum);
  if (stored == nullptr || *stored != row_checksum(*table_, version_, row_)) {
    problem_ = "the checksum does not match";
    return;
  }
  // A forged row with a valid checksum may still hold text that no output can show.
  for (size_t i = 0; i < row_.size(); ++i) {
    const auto* text = std::get_if<std::string>(&row_[i]);
    if (text != nullptr && !is_utf8(*text)) {
      problem_ = std::string("column ") + table_->columns[i].name + " is not valid UTF-8";
      return;
    }
  }
}

Joined join_row(const Connection& connection, const Table& table, int version, const Row& row) {
  Joined result = Joined::Added;
  {
    RowScan present(connection, table, version, key_condition(table));
    bind_key(present.statement(), table, row);
    if (present.next()) {
      if (present.problem().empty()) {
        if (present.row() == row || !wins(table, row, present.row())) return Joined::Same;
        result = Joined::Updated;
      } else {
        result = Joined::Healed;
      }
    }
  }
  if (result != Joined::Added) delete_key(connection, table, row);
  insert_row(connection, table, version, row);
  return result;
}

void replace_row(const Connection& connection, const Table& table, int version, const Row& row) {
  delete_key(connection, table, row);
  insert_row(connection, table, version, row);
}

}  // namespace tilewright::database
