// tune-cli worker: measures for a 'tune --workers' that runs elsewhere.
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/lookup.h"
#include "tilewright/version.h"
#include "tuner/fleet/fleet_worker.h"

namespace tilewright::cli {

void add_worker(CLI::App& app, Runners& runners) {
  CLI::App* sub = app.add_subcommand(
      "worker", "Measures for a 'tune --workers', over standard input and output");
  sub->footer(
      "Not called by hand: ssh, srun or kubectl exec start it on the machine that measures "
      "(docs/fleet.md). Example:\n"
      "  tune-cli tune matmul:m=512,n=3072,k=768 --workers 'command:ssh build1 tune-cli worker'");
  runners["worker"] = [] {
    return fleet_worker_main(
        {.job_worker = worker_command(), .version = TILEWRIGHT_VERSION, .facts = measuring_facts});
  };
}

}  // namespace tilewright::cli
