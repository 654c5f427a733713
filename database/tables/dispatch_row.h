// Conversion between dispatch tables and their rows.
#pragma once

#include "database/dispatch.h"
#include "database/tables/row.h"

namespace tilewright::database {

// Throws RecordError when the table is not fit to be stored: ranges with gaps or out of order,
// times that are not finite.
Row dispatch_row(const DispatchTable& table);

// Requires a healthy row. Throws RecordError when it does not hold a table.
DispatchTable dispatch_from_row(const Row& row);

}  // namespace tilewright::database
