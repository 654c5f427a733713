// Pieces of HTML that the parts of a report share.
#pragma once

#include <string>

#include "cli/report/report_data.h"

namespace tilewright::cli {

// A chart with words below it; empty without a chart.
std::string figure(const std::string& svg, const std::string& caption);

// A cell with a bar; `share` of 1 is the full width.
std::string bar_cell(double share);

// A person's name for the workload, escaped. Its direction does not spill over to what follows.
std::string name_of(const ReportWorkload& w);
std::string anchor_of(const ReportWorkload& w);

// Heads and cells of seconds, GFLOP/s, share of the roofline, and ratio to the default.
extern const char* const kSpeedHeads;
std::string speed_cells(const ReportWorkload& w, double seconds);

// The section on one workload.
std::string workload_section(const ReportWorkload& w);

}  // namespace tilewright::cli
