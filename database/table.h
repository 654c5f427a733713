// The tables as data: opening, checking, migrating, merging and exporting work on this description
// and need no code for a new table or column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "database/sqlite.h"

namespace tilewright::database {

// The schema version that this tool writes. docs/database.md says what each version brought.
inline constexpr int kSchemaVersion = 5;

// Doubles and Floats are blobs of little-endian numbers; export writes Doubles as a JSON array.
enum class ColumnType { Integer, Real, Text, Blob, Doubles, Floats };

struct Column {
  const char* name;
  ColumnType type;
  int since = 1;  // the schema version that brought it
};

// Every table also has a column `checksum`, which covers all the others.
struct Table {
  const char* name;
  int since;
  size_t key_columns;      // the first columns are the key of a row, the same in every database
  const char* precedence;  // of two healthy rows with one key the greater value here wins, or null
  std::vector<Column> columns;

  // The columns that exist at a schema version, in order.
  std::vector<Column> columns_at(int version) const;

  // Where the named column stands among all columns; a name that is not there is a fault of ours.
  size_t index_of(std::string_view column) const;
};

// The tables that hold facts, those that others refer to first.
const std::vector<Table>& fact_tables();

// The table with the schema's own version, a second witness beside the file's header.
const Table& meta_table();

// Which kernels were made here, and where the others came from. It says who is trusted, so it is
// neither merged nor exported.
const Table& origins_table();

// fact_tables(), the meta table and that of the origins.
std::vector<const Table*> all_tables();

const Table& table_named(std::string_view name);

// What a column holds in rows that were written before it existed.
Cell default_cell(ColumnType type);

// Whether a cell has the storage class of the column's type.
bool cell_fits(const Cell& cell, ColumnType type);

}  // namespace tilewright::database
