// Stored kernels run in processes of their own: one that crashes, hangs or touches what is not its
// own takes that process with it.
#pragma once

#include <string>
#include <vector>

#include "cli/lookup.h"
#include "runtime/worker/jobs.h"
#include "runtime/worker/worker_pool.h"

namespace tilewright::cli {

enum class Confined : bool { No, Yes };

// One worker of this program, whose jobs are done one after the other.
class KernelWorker {
 public:
  // For kernels of the target: confined where it is a CPU (the drivers of GPUs need more).
  explicit KernelWorker(const Target& target);
  // `inherited` descriptors have the same numbers there.
  KernelWorker(Confined confined, std::vector<int> inherited);

  // Checks and times a kernel; what goes wrong in the process is the result's verdict. Throws
  // ToolchainError for want of a device.
  MeasureResult measure(const MeasureJob& job);
  // The result of a job of this type. `payload` is JSON text. Throws ToolchainError where the job did,
  // and Error for a worker that does not start.
  JobResult run(const std::string& type, const std::string& payload, double timeout_seconds);

 private:
  WorkerPool pool_;
};

// The job that checks and times a stored kernel in a worker, at the largest sizes of its dynamic
// dimensions where no others are set. Nothing of the kernel is loaded here. Throws DatabaseError
// that names the workload when the stored kernel is not sound.
MeasureJob measure_job(const Workload& workload, const database::Artifact& artifact,
                       const Lookup& lookup);

// Says once where kernels run unconfined because this system cannot do better.
void note_confinement(const CommonOptions& options, const Target& target);

}  // namespace tilewright::cli
