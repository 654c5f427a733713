// Creating, recognising and migrating a database file.
#pragma once

#include <string>

#include "database/sqlite.h"

namespace tilewright::database {

// Written into the header of every Tilewright database ("TWdb").
inline constexpr int kApplicationId = 0x54576462;

// Creates the tables of a schema version in an empty database. Call inside a transaction.
void create_schema(const Connection& connection, int version);

// The schema version of a Tilewright database, or 0 for an empty file. Throws DatabaseError when
// the file is something else, damaged, or newer than this tool.
int read_schema_version(const Connection& connection);

// Takes the database from `version` to kSchemaVersion, one step a version. Call inside a
// transaction. Rows that were damaged before stay recognisably damaged. Kernels of a version that did
// not keep their origin are the owner's, unless the file is not trusted (`distrust` says why).
void migrate_schema(const Connection& connection, int version, const std::string& distrust);

}  // namespace tilewright::database
