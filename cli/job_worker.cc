// The worker process of this machine: `tune-cli job-worker`, started by the tuner and not meant for people.
#include "runtime/worker/worker.h"

#include <CLI/CLI.hpp>

#include "cli/bench/bench_job.h"
#include "cli/command.h"
#include "cli/run/run_job.h"
#include "runtime/worker/jobs.h"
#include "sandbox/seccomp.h"

namespace tilewright::cli {

void add_job_worker(CLI::App& app, Runners& runners) {
  auto confined = std::make_shared<bool>(false);
  CLI::App* sub =
      app.add_subcommand("job-worker", "Serves jobs on standard input and output")->group("");
  sub->add_flag("--confined", *confined, "Drop all rights that kernels do not need");
  runners["job-worker"] = [confined] {
    // The parent tells what keeps the filter from working.
    if (*confined) confine_process();
    JobHandlers handlers = runtime_handlers(parse_workload);
    handlers["run"] = handle_run;
    handlers["bench"] = handle_bench;
    handlers["peers"] = handle_peers;
    return worker_main(handlers);
  };
}

}  // namespace tilewright::cli
