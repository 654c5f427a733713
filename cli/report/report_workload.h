// The content of a report on one workload.
#pragma once

#include <vector>

#include "cli/report/report_data.h"
#include "tuner/search/run_findings.h"

namespace tilewright::cli {

// One a config, the last confirmation before earlier measurements, fastest first.
std::vector<ReportConfig> top_configs(const std::vector<database::Record>& records);

// `records`: measured ones of one workload on one number of threads, in the order of measuring.
// `findings`: on it, of the runs that they came from, latest first. `thorough`: with what takes
// processors.
ReportWorkload workload_report(const Workload& w, const Target& target, int threads,
                               const std::vector<database::Record>& records,
                               const std::vector<WorkloadFindings>& findings, bool thorough);

}  // namespace tilewright::cli
