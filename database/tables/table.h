// The tables as data. Opening, checking, migrating, merging and exporting use this description and
// need no code for a new table or column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "database/tables/sqlite.h"

namespace tilewright::database {

// The schema version that this tool writes. docs/database.md lists the changes of each version.
inline constexpr int kSchemaVersion = 5;

// Doubles and Floats are blobs of little-endian numbers; export writes Doubles as a JSON array.
enum class ColumnType { Integer, Real, Text, Blob, Doubles, Floats };

struct Column {
  const char* name;
  ColumnType type;
  int since = 1;  // the schema version that added it
};

// Every table also has a column `checksum`, which covers all the others.
struct Table {
  const char* name;
  int since;
  size_t key_columns;      // the first columns are a row's key, the same in every database
  const char* precedence;  // of two healthy rows with one key, the greater value here wins; or null
  std::vector<Column> columns;

  // The columns that exist at a schema version, in order.
  std::vector<Column> columns_at(int version) const;

  // The position of the named column among all columns; an unknown name is an internal error.
  size_t index_of(std::string_view column) const;
};

// The tables that hold facts; tables that others refer to come first.
const std::vector<Table>& fact_tables();

// The table with the schema version, a second copy beside the one in the file's header.
const Table& meta_table();

// Which kernels were made here, and where the others came from. It decides trust, so it is neither
// merged nor exported.
const Table& origins_table();

// Named parts of a model file: its program and its constants. Such a file is a serving file that has this
// table besides; no other database has it.
const Table& parts_table();

// fact_tables(), the meta table and the origins table.
std::vector<const Table*> all_tables();

const Table& table_named(std::string_view name);

// The value of a column in rows that were written before the column existed.
Cell default_cell(ColumnType type);

// True when a cell has the storage class of the column's type.
bool cell_fits(const Cell& cell, ColumnType type);

}  // namespace tilewright::database
