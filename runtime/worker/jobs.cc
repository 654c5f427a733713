#include "runtime/worker/jobs.h"

#include <memory>

#include "runtime/check/weight_packing.h"
#include "runtime/compile/compile.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/error.h"
#include "runtime/tensor/fences.h"
#include "runtime/worker/bench.h"
#include "runtime/worker/device_bench.h"

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
  if (job.status == JobStatus::Crashed) {
    if (auto fault = named_fault(job.stderr_tail)) {
      result.verdict = Verdict::OutOfBounds;
      result.message = *fault;
    }
  }
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
      {"prepare",
       [bench, on_device, parse](const std::string& payload) {
         MeasureJob job = measure_job_from_json(payload);
         if (job.cuda.empty()) {
           bench->prepare(job);
         } else {
           on_device->prepare(job, parse);
         }
         return std::string("{}");
       }},
      {"measure",
       [bench, on_device, parse](const std::string& payload) {
         MeasureJob job = measure_job_from_json(payload);
         return to_json(job.cuda.empty() ? bench->measure(job) : on_device->measure(job, parse));
       }},
  };
}

}  // namespace tilewright
