// Conversion between the facts of record.h and the rows of the tables, and the checks that every
// fact passes before it is stored.
#pragma once

#include "database/record.h"
#include "database/tables/row.h"

namespace tilewright::database {

// Throws RecordError when the fact is not fit to be stored. The returned row has the keys that the
// store makes (ids and hashes).
Row record_row(const Record& record);
Row artifact_row(const Artifact& artifact);
Row model_row(const Model& model);
Row run_row(const TuningRun& run);
Row workload_row(const Record& record);
Row target_row(const TargetIdentity& target);

// Conversion from healthy rows. `record_from_row` leaves the workload's text empty, and everything
// of the target except its hash: these are in rows of their own. They throw RecordError when a
// healthy row holds an unknown value, such as a verdict that this tool has no name for.
Record record_from_row(const Row& row);
Artifact artifact_from_row(const Row& row);
Model model_from_row(const Row& row);
TuningRun run_from_row(const Row& row);
TargetIdentity target_from_row(const Row& row);  // as it is found today: see target.h

// Conversion between doubles and their stored form, little-endian.
Blob doubles_to_blob(const std::vector<double>& values);
std::vector<double> doubles_from_blob(const Blob& blob);

// Microseconds since 1970.
int64_t now_microseconds();

}  // namespace tilewright::database
