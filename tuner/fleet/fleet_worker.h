// The worker's side of a fleet: `tune-cli worker`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernel/target.h"
#include "runtime/machine/identity.h"

namespace tilewright {

struct FleetWorkerOptions {
  std::vector<std::string> job_worker;  // the command of a process that compiles and runs kernels
  std::string version;
  // The identity under which this machine's kernels for the target are kept.
  std::function<TargetFacts(const Target&)> facts;
  double beat_seconds = 5;  // between two signs of life while a job goes on
};

// Serves a coordinator on standard input and output, one job at a time, until the input ends; the
// process's exit code. A job that is going on then is ended.
int fleet_worker_main(const FleetWorkerOptions& options);

}  // namespace tilewright
