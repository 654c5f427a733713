// Findings of a tuning run besides its records: where the time went, and how the finalists ran.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tuner/measure/measurer.h"
#include "tuner/search/finalists.h"

namespace tilewright {

// A finalist in the closing comparison, where kernels run in turns.
struct FinalistRounds {
  std::string sketch, config;
  std::vector<double> seconds;  // a median per round that counted
  bool winner = false;
};

struct WorkloadFindings {
  double elapsed = 0;  // seconds
  SecondsSpent spent = {};
  std::vector<FinalistRounds> finalists = {};  // fastest first; empty before the comparison
};

// By the workload's hash.
using RunFindings = std::map<std::string, WorkloadFindings>;

// A run's arguments, a JSON object, with the findings under a key of their own in the place of
// earlier ones.
std::string with_findings(const std::string& args, const RunFindings& findings);
// The inverse. Another tool may have written the text: entries that are no findings are left out.
RunFindings findings_of(const std::string& args);
// The arguments alone.
std::string without_findings(const std::string& args);

// The rivals that ran, with their rounds. `winner`: its index; negative: there is none.
std::vector<FinalistRounds> finalist_rounds(const std::vector<Finalist>& rivals,
                                            const Comparison& comparison, int winner);

}  // namespace tilewright
