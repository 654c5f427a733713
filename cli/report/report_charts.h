// The charts of a report.
#pragma once

#include <string>
#include <vector>

#include "cli/report/report_data.h"

namespace tilewright::cli {

/// Trials from left to right, the time of each, the best so far, and crosses where one failed.
/// Empty when no trial was valid.
std::string convergence_chart(const ReportWorkload& w);

/// GFLOP/s over arithmetic intensity under the roofs of this machine: all trials of one workload.
/// Empty for what does no arithmetic, and when no trial was valid.
std::string roofline_chart(const ReportWorkload& w);

/// The winners of all workloads under one roof. Requires that all ran on as many threads.
std::string roofline_chart(const std::vector<ReportWorkload>& workloads);

}  // namespace tilewright::cli
