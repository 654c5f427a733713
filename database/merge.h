// What merge and import share: rows of a source are put in, and what became of each is counted.
#pragma once

#include <string>

#include "database/report.h"
#include "database/row.h"

namespace tilewright::database {

// Puts one healthy row in and counts it.
void join_counted(const Connection& connection, const Table& table, int version, const Row& row,
                  MergeReport& report);

class StoreImpl;

// Files where the kernels that have just come are from: "came by merge from 'x.db' on 2026-11-23".
void file_foreign(const StoreImpl& store, const std::string& way, const std::string& source,
                  MergeReport& report);

}  // namespace tilewright::database
