// What merge and import share: rows of a source are put in, and what became of each is counted.
#pragma once

#include "database/report.h"
#include "database/row.h"

namespace tilewright::database {

// Puts one healthy row in and counts it.
void join_counted(const Connection& connection, const Table& table, int version, const Row& row,
                  MergeReport& report);

}  // namespace tilewright::database
