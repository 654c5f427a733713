// Rows with their checksums: cells enter and leave the file only through these functions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "database/tables/checksum.h"
#include "database/tables/table.h"

namespace tilewright::database {

// One cell per column of the table, whatever the schema version of the file it came from.
using Row = std::vector<Cell>;

// The canonical bytes of a row at a schema version: the table's name, and the cells of every column
// that exists in that version.
Canonical canonical_row(const Table& table, int version, const Row& row);

// The correct checksum of a stored row in a file of the given schema version.
int64_t row_checksum(const Table& table, int version, const Row& row);

// The key columns as text for messages: "records 3f2a…".
std::string row_name(const Table& table, const Row& row);

// The cell of a column that holds text.
inline const std::string& text_cell(const Row& row, size_t column) {
  return std::get<std::string>(row[column]);
}

// Reads rows one by one and checks whether each is what was written.
class RowScan {
 public:
  // `rest` follows "FROM <table>": conditions with parameters (bound through `statement()`), and an
  // order.
  RowScan(const Connection& connection, const Table& table, int version,
          const std::string& rest = "");

  Statement& statement() { return statement_; }

  bool next();

  const Row& row() const { return row_; }
  int64_t rowid() const { return rowid_; }

  // The reason why the current row must not be used; empty when it is healthy.
  const std::string& problem() const { return problem_; }

 private:
  void verify(const Cell& stored_checksum);

  const Table* table_;
  int version_;
  std::vector<Column> stored_;  // the columns that exist in the file
  Statement statement_;
  Row row_;
  int64_t rowid_ = 0;
  std::string problem_;
};

// The outcome of inserting a row into a table.
enum class Joined {
  Added,    // its key was not in the table
  Healed,   // it replaced a damaged row with its key
  Updated,  // it won over a healthy row with its key
  Same,     // the table holds it, or a row that wins over it
};

// Inserts `row`. The winning row does not depend on the order of insertions, so merging is
// commutative, associative and idempotent.
Joined join_row(const Connection& connection, const Table& table, int version, const Row& row);

// Inserts `row` and replaces any row with its key.
void replace_row(const Connection& connection, const Table& table, int version, const Row& row);

}  // namespace tilewright::database
