// Shared by merge and import: inserts the rows of a source and counts the outcomes.
#pragma once

#include <string>

#include "database/report.h"
#include "database/tables/row.h"

namespace tilewright::database {

// Inserts one healthy row and counts the outcome.
void join_counted(const Connection& connection, const Table& table, int version, const Row& row,
                  MergeReport& report);

class StoreImpl;

// Records where newly arrived kernels came from: "came by merge from 'x.db' on 2026-11-23".
void file_foreign(const StoreImpl& store, const std::string& way, const std::string& source,
                  MergeReport& report);

}  // namespace tilewright::database
