// Creation, recognition and migration of a database file.
#pragma once

#include <string>

#include "database/tables/sqlite.h"

namespace tilewright::database {

// Written into the header of every Tilewright database ("TWdb").
inline constexpr int kApplicationId = 0x54576462;

// Creates the tables of a schema version in an empty database. Call inside a transaction.
void create_schema(const Connection& connection, int version);

// Adds the table of a model file's parts.
void create_parts_table(const Connection& connection);

// The schema version of a Tilewright database, or 0 for an empty file. Throws DatabaseError when
// the file is something else, damaged, or newer than this tool.
int read_schema_version(const Connection& connection);

// Migrates the database from `version` to kSchemaVersion, one step per version. Call inside a
// transaction. Damaged rows stay recognisably damaged. Kernels of a version without origins count
// as made by the owner, unless the file is not trusted (`distrust` gives the reason).
void migrate_schema(const Connection& connection, int version, const std::string& distrust);

}  // namespace tilewright::database
