// Times of baselines, from files of `tune-cli bench --json`.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::cli {

struct ReportBaseline {
  std::string name;  // "oneDNN"
  double seconds = 0;
  std::string note = {};  // what computed it
  bool counts = true;     // false: it computes something else, or is reference code
};

// A workload's contest, where all sides took turns.
struct ReportBench {
  double seconds = 0, default_seconds = 0;  // of the kernel and the untuned default; 0: not there
  std::string disturbed = {};               // what else had the processors; empty: nothing
  std::vector<ReportBaseline> baselines = {};
};

struct ReportBenches {
  std::vector<std::pair<std::string, std::string>> versions;  // of the baselines, by name
  std::map<std::pair<std::string, int>, ReportBench> rows;    // by inline spec and threads
};

// Later files win. Rows at sizes of a range and rows without a time are left out. Throws UsageError
// with the file for one that is no document of bench.
ReportBenches read_benches(const std::vector<std::string>& files);

}  // namespace tilewright::cli
