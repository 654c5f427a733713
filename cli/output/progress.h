// The live line of a tuning run.
#pragma once

#include <map>
#include <string>

#include "tuner/search/tuner.h"

namespace tilewright::cli {

// "2.1 ms", "830 us": a time that a person reads.
std::string readable_seconds(double seconds);

// How long the rest of the run will take, all workloads together: the remaining trials at the pace
// so far, at most to the time limit.
double seconds_left(const TuneProgress& p);

// One line of at most `width` columns: where the run is, what it found and how long it will take. What
// matters least is left out first, and the workload's name is cut last. `roofline_seconds`: the least
// time of the workload; 0: not known.
std::string progress_text(const TuneProgress& p, double roofline_seconds, size_t width);

// Writes to standard error: one line rewritten in place on a terminal, else a line at most every
// few seconds and at each workload's last batch.
class ProgressLine {
 public:
  // `roofline_seconds`: the least time of each workload, by its hash.
  ProgressLine(bool quiet, std::map<std::string, double> roofline_seconds);
  void show(const TuneProgress& p);
  void finish();  // ends the line

 private:
  bool quiet_, terminal_;
  std::map<std::string, double> roofline_;
  bool dirty_ = false;
  double last_ = -1e9;
};

}  // namespace tilewright::cli
