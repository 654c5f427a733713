#include "runtime/jobs.h"

#include <algorithm>
#include <memory>

#include "runtime/check.h"
#include "runtime/compile.h"
#include "runtime/cpus.h"
#include "runtime/error.h"
#include "runtime/message.h"

namespace tilewright {
namespace {

BuildResult build(const BuildJob& job) {
  BuildResult result;
  CompileOptions options;
  options.use_cache = job.use_cache;
  options.timeout_seconds = job.timeout_seconds;
  try {
    CompiledObject compiled = compile(job.source, options);
    result.object_path = compiled.path;
    if (compiled.path.empty()) result.object = std::move(compiled.object);
    result.hash = compiled.hash;
    result.compiler = compiled.compiler;
    result.cached = compiled.cached;
    result.seconds = compiled.seconds;
  } catch (const CompileError& e) {
    result.error = e.what();
  }
  return result;
}

// Proves and times kernels; what the candidates of one workload share is made once.
class Bench {
 public:
  explicit Bench(WorkloadParser parse) : parse_(std::move(parse)) {}

  MeasureResult measure(const MeasureJob& job) {
    prepare(job);
    MeasureResult result;
    try {
      Kernel kernel(object_of(job), job.description);
      BoundKernel bound(kernel, *operands_, dim_values(*workload_, job.dims), pool(job.threads));
      result.pack_seconds = bound.pack_seconds();
      double checked_run = job.check ? prove(bound, job, &result) : 0;
      if (job.time && result.verdict == Verdict::Ok) {
        bool enough = job.check && checked_run >= job.timing.lone_run_seconds;
        result.timing = enough ? lone_run(checked_run, job.timing)
                               : tilewright::measure([&] { bound.run(); }, job.timing);
      }
    } catch (const KernelError& e) {
      result.verdict = Verdict::Runtime;
      result.message = e.what();
    }
    return result;
  }

 private:
  // Gives the seconds that the checked run took.
  double prove(BoundKernel& bound, const MeasureJob& job, MeasureResult* result) {
    if (reference_samples_ != job.samples) {
      Oracle oracle(*workload_, seeded_readers(operands_->infos(), job.seed), job.dims);
      reference_ = make_reference(operands_->output().shape(), job.samples, job.seed,
                                  [&](int64_t i) { return oracle.at(i); });
      reference_samples_ = job.samples;
    }
    CheckResult check = check_kernel(bound, reference_);
    // Guards tell of writes next to the arrays, not of those further off.
    if (check.verdict == Verdict::OutOfBounds) retire_worker();
    result->verdict = check.verdict;
    result->message = check.message;
    result->wrong_index = check.index;
    result->max_rel_error = check.max_rel_error;
    result->compared = check.compared;
    return check.run_seconds;
  }

  void prepare(const MeasureJob& job) {
    if (workload_ && job.workload == key_.workload && job.dims == key_.dims &&
        job.seed == key_.seed) {
      return;
    }
    operands_.reset();  // before the new ones take their memory
    workload_ = std::make_unique<Workload>(parse_(job.workload));
    operands_ = std::make_unique<OperandSet>(operands_of(*workload_, job.dims), job.seed);
    reference_samples_ = -1;
    key_ = {job.workload, job.dims, job.seed};
  }

  static std::string object_of(const MeasureJob& job) {
    if (job.object_path.empty()) return job.object;
    std::optional<std::string> object = read_cached_object(job.object_path);
    if (!object) throw KernelError("no sound object at '" + job.object_path + "'");
    return std::move(*object);
  }

  ThreadPool& pool(int threads) {
    if (!pool_ || pool_->threads() != threads) {
      pool_.reset();
      pool_ = std::make_unique<ThreadPool>(threads);
      // The pool's helpers are pinned to the processors after the first.
      if (threads <= static_cast<int>(available_cpus().size())) {
        pin_current_thread(available_cpus().front());
      }
    }
    return *pool_;
  }

  struct Key {
    std::string workload;
    std::map<std::string, int64_t> dims;
    uint64_t seed = 0;
  };
  WorkloadParser parse_;
  Key key_;
  std::unique_ptr<Workload> workload_;
  std::unique_ptr<OperandSet> operands_;
  Reference reference_;
  int reference_samples_ = -1;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace

MeasureResult failed_measurement(const JobResult& job) {
  MeasureResult result;
  switch (job.status) {
    case JobStatus::TimedOut: result.verdict = Verdict::Timeout; break;
    case JobStatus::Failed:
    case JobStatus::OutOfMemory:
    case JobStatus::Crashed:
    case JobStatus::Exited:
    case JobStatus::Malformed: result.verdict = Verdict::Runtime; break;
    case JobStatus::Done:
    case JobStatus::NoToolchain:
    case JobStatus::NotStarted:
    case JobStatus::Cancelled:
      internal_error(__FILE__, __LINE__, "status",
                     std::string(name_of(job.status)) + " says nothing of the candidate");
  }
  result.message = job.message;
  if (job.status == JobStatus::OutOfMemory && !job.message.starts_with("out of memory")) {
    result.message = "out of memory: " + job.message;
  }
  return result;
}

JobHandlers runtime_handlers(WorkloadParser parse) {
  auto bench = std::make_shared<Bench>(std::move(parse));
  return {
      {"build",
       [](const std::string& payload) { return to_json(build(build_job_from_json(payload))); }},
      {"measure",
       [bench](const std::string& payload) {
         return to_json(bench->measure(measure_job_from_json(payload)));
       }},
  };
}

}  // namespace tilewright
