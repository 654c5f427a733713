#include "runtime/jobs.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>

#include "runtime/check.h"
#include "runtime/check_points.h"
#include "runtime/compile.h"
#include "runtime/cpus.h"
#include "runtime/cuda/device_bench.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "runtime/same_rows.h"
#include "runtime/weight_packing.h"

namespace tilewright {
namespace {

// Machine code for a GPU, which needs none here.
BuildResult build_cuda(const BuildJob& job) {
  BuildResult result;
  double begin = steady_seconds();
  try {
    result.object = cuda::compile_to_cubin(job.source.code, "kernel", job.cuda_architecture);
    result.compiler = cuda::nvrtc_identity();
    result.packing_object = compile_packing(job.packing).object;
  } catch (const CompileError& e) {
    result.error = e.what();
  }
  result.seconds = steady_seconds() - begin;
  return result;
}

BuildResult build(const BuildJob& job) {
  if (!job.cuda_architecture.empty()) return build_cuda(job);
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

// Operands of a size at which kernels are only timed are made anew each time beyond this.
constexpr int64_t kManyBytes = int64_t{64} << 20;

int64_t bytes_of(OperandSet& operands) {
  int64_t sum = 0;
  for (const OperandInfo& info : operands.infos()) sum += operands.at(info.name).bytes();
  return sum;
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
      BoundKernel bound(kernel, *at(job.dims).operands, dim_values(*workload_, job.dims),
                        pool(job.threads));
      result.pack_seconds = bound.pack_seconds();
      double checked_run = job.check ? prove(bound, at(job.dims), job, &result, job.dims) : 0;
      if (job.check) prove_elsewhere(bound, job, &result);
      if (job.time && result.verdict == Verdict::Ok) {
        bool enough = job.check && checked_run >= job.timing.lone_run_seconds;
        result.timing = enough ? lone_run(checked_run, job.timing)
                               : tilewright::measure([&] { bound.run(); }, job.timing);
      }
      if (result.verdict == Verdict::Ok) time_elsewhere(bound, job, &result);
    } catch (const KernelError& e) {
      result.verdict = Verdict::Runtime;
      result.message = e.what();
    }
    return result;
  }

 private:
  using Dims = std::map<std::string, int64_t>;
  // The operands at one value of the dynamic dimensions, and what is right there.
  struct Point {
    std::unique_ptr<OperandSet> operands;
    Reference reference;
    int reference_samples = -1;
  };

  // Gives the seconds that the checked run took.
  double prove(BoundKernel& bound, Point& point, const MeasureJob& job, MeasureResult* result,
               const Dims& dims) {
    if (point.reference_samples != job.samples) {
      Oracle oracle(*workload_, seeded_readers(point.operands->infos(), job.seed), dims);
      point.reference = make_reference(point.operands->output().shape(), job.samples, job.seed,
                                       [&](int64_t i) { return oracle.at(i); });
      point.reference_samples = job.samples;
    }
    CheckResult check = check_kernel(bound, point.reference);
    // Guards tell of writes next to the arrays, not of those further off.
    if (check.verdict == Verdict::OutOfBounds) retire_worker();
    result->verdict = check.verdict;
    result->message = check.message;
    result->wrong_index = check.index;
    result->max_rel_error = std::max(result->max_rel_error, check.max_rel_error);
    result->compared += check.compared;
    return check.run_seconds;
  }

  // Proves the kernel at other sizes of the workload's dynamic dimensions, while it is right.
  void prove_elsewhere(const BoundKernel& bound, const MeasureJob& job, MeasureResult* result) {
    for (const Dims& dims : check_points(*workload_, job.description.sizes)) {
      if (result->verdict != Verdict::Ok) return;
      if (dims == job.dims) continue;
      Point& point = at(dims);
      ThreadPool& threads = pool(job.threads);
      BoundKernel other(bound, *point.operands, dim_values(*workload_, dims), threads);
      prove(other, point, job, result, dims);
      if (result->verdict == Verdict::Ok) continue;
      std::string where;
      for (const auto& [name, value] : dims) {
        where += fmt::format("{}{} = {}", where.empty() ? "" : ", ", name, value);
      }
      result->message += " at " + where;
    }
  }

  // Times the kernel at the job's other sizes, and compares the rows that it computes there.
  void time_elsewhere(BoundKernel& bound, const MeasureJob& job, MeasureResult* result) {
    bool same_rows = job.compare_rows && !job.points.empty();
    if (same_rows) bound.run();
    for (const SizePoint& p : job.points) {
      Point& point = at(p.dims);
      result->at_points.push_back(time_at(bound, p, *point.operands, job));
      same_rows = same_rows && begins_alike(*point.operands, bound.operands());
      const bool kept = p.dims == job.dims || point.reference_samples >= 0;
      if (!kept && bytes_of(*point.operands) > kManyBytes) points_.erase(p.dims);
    }
    if (same_rows) result->rows_identity = rows_identity(bound.operands());
  }

  double time_at(const BoundKernel& bound, const SizePoint& p, OperandSet& operands,
                 const MeasureJob& job) {
    BoundKernel other(bound, operands, dim_values(*workload_, p.dims), pool(job.threads));
    TimingOptions timing = job.point_timing;
    timing.cutoff_seconds = p.cutoff_seconds;
    return tilewright::measure([&] { other.run(); }, timing).median;
  }

  // Made when first asked for; other sizes than the job's share its weights.
  Point& at(const Dims& dims) {
    Point& point = points_[dims];
    if (point.operands) return point;
    std::vector<OperandInfo> infos = operands_of(*workload_, dims);
    const Point& first = points_.at(key_.dims);
    point.operands = first.operands
                         ? std::make_unique<OperandSet>(std::move(infos), *first.operands)
                         : std::make_unique<OperandSet>(std::move(infos), key_.seed);
    return point;
  }

  void prepare(const MeasureJob& job) {
    if (workload_ && job.workload == key_.workload && job.dims == key_.dims &&
        job.seed == key_.seed) {
      return;
    }
    points_.clear();  // before the new ones take their memory
    workload_ = std::make_unique<Workload>(parse_(job.workload));
    key_ = {job.workload, job.dims, job.seed};
    at(job.dims);
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
    Dims dims;
    uint64_t seed = 0;
  };
  WorkloadParser parse_;
  Key key_;
  std::unique_ptr<Workload> workload_;
  std::map<Dims, Point> points_;
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
  auto on_device = std::make_shared<cuda::DeviceBench>();
  auto bench = std::make_shared<Bench>(parse);
  return {
      {"build",
       [](const std::string& payload) { return to_json(build(build_job_from_json(payload))); }},
      {"measure",
       [bench, on_device, parse](const std::string& payload) {
         MeasureJob job = measure_job_from_json(payload);
         return to_json(job.cuda.empty() ? bench->measure(job) : on_device->measure(job, parse));
       }},
  };
}

}  // namespace tilewright
