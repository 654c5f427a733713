// Rows with their checksums: the only way by which cells get into the file and out of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "database/checksum.h"
#include "database/table.h"

namespace tilewright::database {

// One cell for each column of the table, whatever the version of the file that it came from.
using Row = std::vector<Cell>;

// The bytes that stand for a row at a schema version: the table's name and the cells of every
// column that exists then.
Canonical canonical_row(const Table& table, int version, const Row& row);

// What a stored row's checksum must be in a file of the given schema version.
int64_t row_checksum(const Table& table, int version, const Row& row);

// The key columns as text for messages: "records 3f2a…".
std::string row_name(const Table& table, const Row& row);

// Reads rows one by one and says of each whether it is what was written.
class RowScan {
 public:
  // `rest` follows "FROM <table>": conditions with parameters (bound through `statement()`) and
  // an order.
  RowScan(const Connection& connection, const Table& table, int version,
          const std::string& rest = "");

  Statement& statement() { return statement_; }

  bool next();

  const Row& row() const { return row_; }
  int64_t rowid() const { return rowid_; }

  // Why the current row must not be used; empty when it is healthy.
  const std::string& problem() const { return problem_; }

 private:
  void verify(const Cell& stored_checksum);

  const Table* table_;
  int version_;
  std::vector<Column> stored_;  // the columns that the file has
  Statement statement_;
  Row row_;
  int64_t rowid_ = 0;
  std::string problem_;
};

// What became of a row that was put into a table.
enum class Joined {
  Added,    // its key was not there
  Healed,   // it replaced a damaged row with its key
  Updated,  // it won over a healthy row with its key
  Same,     // the table holds it already, or a row that wins over it
};

// Puts `row` in. The row that wins does not depend on the order in which rows come, so merging is
// commutative, associative and idempotent.
Joined join_row(const Connection& connection, const Table& table, int version, const Row& row);

// Puts `row` in place of whatever has its key.
void replace_row(const Connection& connection, const Table& table, int version, const Row& row);

}  // namespace tilewright::database
