// Makes database records of candidates, measured or ranked by a model alone.
#pragma once

#include <string>

#include "database/record.h"
#include "database/store.h"
#include "kernel/kernel_source.h"
#include "tuner/candidate.h"
#include "tuner/search/tuner.h"

namespace tilewright {

// A kernel as stored: its object, its source, and the tools that made them. `cuda` is a GPU
// kernel's description.
database::Artifact artifact_of(const KernelSource& source, const std::string& object,
                               const std::string& compiler, const std::string& cuda = {});

// A record with all fields that do not depend on a measurement: workload, target, candidate, and
// options of the run.
database::Record record_of(const Workload& workload, const database::TargetIdentity& target,
                           const Candidate& candidate, const TuneOptions& options,
                           const std::string& run_id);

// The record of a kernel that ran in turns with its rivals at the end of a run, by its number among them. The
// reason has the claim.
database::Record confirmation_of(const database::Record& trial, const Comparison& comparison,
                                 size_t kernel, const std::string& run_id);

// A query for a workload's best kernel, whichever version of a sketch found it.
database::BestQuery best_query(const Workload& workload, const Target& target,
                               const database::TargetIdentity& identity, int threads);

}  // namespace tilewright
