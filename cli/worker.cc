// The worker: `tune-cli worker`, started by the tuner and not meant for people.
#include "runtime/worker.h"

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "runtime/jobs.h"

namespace tilewright::cli {

void add_worker(CLI::App& app, Runners& runners) {
  app.add_subcommand("worker", "Serves the tuner's jobs on the standard streams")->group("");
  runners["worker"] = [] { return worker_main(runtime_handlers(parse_workload)); };
}

}  // namespace tilewright::cli
