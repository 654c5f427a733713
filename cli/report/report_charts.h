// The charts of a report. Each is empty where there is nothing to draw.
#pragma once

#include <string>
#include <vector>

#include "cli/report/report_data.h"

namespace tilewright::cli {

/// "2 ms", "21.37 us": four digits of a time.
std::string short_seconds(double seconds);

/// Candidates from left to right, the time of each, the best so far, and crosses where one failed.
/// The untuned default and the baselines are lines, where they are not far slower than all.
std::string convergence_chart(const ReportWorkload& w);

/// GFLOP/s over arithmetic intensity under the roofs of this machine: all trials of one workload.
std::string roofline_chart(const ReportWorkload& w);

/// The winners of all workloads under one roof, with their numbers in the table. Requires that all
/// ran on as many threads.
std::string roofline_chart(const std::vector<ReportWorkload>& workloads);

/// The finalists' medians with their intervals, the winner on top.
std::string finalists_chart(const ReportFinalists& finalists);

/// Measured speed over predicted speed.
std::string predictions_chart(const Predictions& predictions);

}  // namespace tilewright::cli
