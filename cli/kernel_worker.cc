#include "cli/kernel_worker.h"

#include <fmt/format.h>

#include "runtime/error.h"
#include "runtime/worker/sandbox.h"
#include "tuner/backend.h"

namespace tilewright::cli {
namespace {

constexpr double kMeasureSeconds = 600;  // operands, reference and timing of the largest workloads

}  // namespace

KernelWorker::KernelWorker(const Target& target)
    : KernelWorker(Backend::of(target).is_confined() ? Confined::Yes : Confined::No, {}) {}

KernelWorker::KernelWorker(Confined confined, std::vector<int> inherited)
    : pool_(WorkerOptions{.command = worker_command(),
                          .confined = confined == Confined::Yes,
                          .inherited = std::move(inherited)},
            1) {}

JobResult KernelWorker::run(const std::string& type, const std::string& payload,
                            double timeout_seconds) {
  pool_.submit(type, payload, timeout_seconds);
  std::vector<Completion> done;
  while (done.empty()) done = pool_.wait(1);
  JobResult result = std::move(done.front().result);
  if (result.status == JobStatus::NoToolchain) throw ToolchainError(result.message);
  if (result.status == JobStatus::NotStarted) {
    throw Error("a worker does not start: " + result.message);
  }
  return result;
}

MeasureResult KernelWorker::measure(const MeasureJob& job) {
  JobResult result = run("measure", to_json(job), kMeasureSeconds);
  return result.status == JobStatus::Done ? measure_result_from_json(result.result)
                                          : failed_measurement(result);
}

MeasureJob measure_job(const Workload& w, const database::Artifact& artifact,
                       const Lookup& lookup) {
  MeasureJob job;
  job.object.assign(reinterpret_cast<const char*>(artifact.bytes.data()), artifact.bytes.size());
  if (lookup.target.is_cuda()) {
    job.cuda = artifact.description;
  } else {
    job.description = stored_description(w, artifact);
    job.threads = lookup.threads;
  }
  job.workload = w.canonical;
  job.dims = largest_sizes(w);
  job.timing.attempts = 3;
  return job;
}

void note_confinement(const CommonOptions& options, const Target& target) {
  const std::string missing = missing_seccomp();
  if (!Backend::of(target).is_confined() || missing.empty() || confinement_problem() != missing)
    return;
  note(options, fmt::format("kernels run unconfined: {} (docs/sandbox.md)", missing));
}

}  // namespace tilewright::cli
