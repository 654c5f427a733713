// What is stored of a candidate, measured or ranked by a model alone.
#pragma once

#include <string>

#include "codegen/kernel_source.h"
#include "database/record.h"
#include "database/store.h"
#include "tuner/candidate.h"
#include "tuner/tuner.h"

namespace tilewright {

// A kernel as it is kept: its object, its source, and what they were made with. `cuda` is the
// description of a GPU kernel.
database::Artifact artifact_of(const KernelSource& source, const std::string& object,
                               const std::string& compiler, const std::string& cuda = {});

// A record with all that does not depend on a measurement: the workload, the target, the
// candidate, and the run's options.
database::Record record_of(const Workload& workload, const database::TargetIdentity& target,
                           const Candidate& candidate, const TuneOptions& options,
                           const std::string& run_id);

// Asks for the best kernel of a workload that sketches of today's versions have made.
database::BestQuery best_query(const Workload& workload, const Target& target,
                               const database::TargetIdentity& identity, int threads);

}  // namespace tilewright
