// Options of a session for this provider: entries of its configuration under "ep.tilewrightexecutionprovider.".
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "provider/runtime.h"

namespace tilewright::provider {

inline constexpr const char* kProviderName = "TilewrightExecutionProvider";

struct Options {
  std::string models;    // the folder of model files
  std::string database;  // whose kernels run where no model file is claimed at all
  std::string dump;      // the folder that takes regions without a model file
  // Operators, nodes and values whose makers stay with other providers: those of the option `exclude`, and the
  // lines of the file of that name in `models`.
  std::set<std::string> excluded;
  bool alone = false;      // `dump` writes nodes one by one
  int threads = 0;         // of the session's pool; set to the process's processors by default
  int instances = 1;       // runs at once
  bool trial = true;       // a region is timed and compared before it is claimed
  int trial_seconds = 60;  // no trial begins later, counted from the start of the session
  std::chrono::steady_clock::time_point trials_end;
  double tolerance = 1e-3;         // of a trial, as a share of an output's largest magnitude
  bool fallback = true;            // sizes that a model file does not have go to the CPU provider
  std::vector<std::string> trust;  // public keys
  bool writes_context = false;     // the session writes a model of EPContext nodes
  std::string context_path;        // to this file; "": beside the model
};

// Refuses an unknown name and a value that is none, with what would do.
Options read_options(const Runtime& runtime, const ort::SessionOptions* session);

// True where no further trial may begin.
bool is_late(const Options& options);
// "the 60 s of the option trial_seconds are over"
std::string late_text(const Options& options);

// Processors that this process may use.
int processors();

}  // namespace tilewright::provider
