// Jobs of workers: to build a kernel, and to check and time one.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"
#include "kernel/kernel_source.h"
#include "runtime/check/spread_weights.h"
#include "runtime/check/verdict.h"
#include "runtime/machine/timer.h"
#include "runtime/worker/worker.h"
#include "runtime/worker/worker_process.h"

namespace tilewright {

// A time below the measured roof by more than this factor is not believed as it is. The peaks behind the roof are
// measured, too.
inline constexpr double kAboveRoof = 1.05;

// Job "build".
struct BuildJob {
  KernelSource source;
  bool use_cache = true;
  double timeout_seconds = 0;  // of the compiler; 0: the knob
  // "sm_80": the source is CUDA, to be compiled by NVRTC. Empty: it is for this machine.
  std::string cuda_architecture;
  KernelSource packing = {};  // of a CUDA program, for this machine; no code: it has none
};

struct BuildResult {
  std::string error;        // what the compiler said against it; empty when all is well
  std::string object_path;  // where the cache keeps the object; empty: the object is in `object`
  std::string object;
  std::string hash;  // of the object's bytes
  std::string packing_object;
  std::string compiler;
  bool cached = false;
  double seconds = 0;
};

// Another size of the dynamic dimensions at which a kernel is timed.
struct SizePoint {
  std::map<std::string, int64_t> dims;
  // Slower is not worth measuring exactly.
  double cutoff_seconds = std::numeric_limits<double>::infinity();
};

// Job "measure".
struct MeasureJob {
  std::string object_path;  // or empty, and the object itself:
  std::string object;
  KernelDescription description;
  std::string cuda;      // of a cubin the CudaDescription as JSON, in the place of `description`
  std::string workload;  // canonical text
  std::map<std::string, int64_t> dims;
  uint64_t seed = 0;
  int threads = 1;
  int samples = 4096;  // output elements to compare where all of them are too dear
  bool check = true;   // false: time only
  bool time = true;    // false: check only, and time at `points`
  // What a run takes by the machine's measured roof, seconds; a faster one, by more than kAboveRoof, is looked at a
  // second time. 0: not known.
  double roof_seconds = 0;
  // A kernel that takes longer is not kept: its first check, on ordinary values, is all that it gets.
  // infinity: every kernel is checked in full. Not for CUDA kernels, nor with `points`.
  double keep_seconds = std::numeric_limits<double>::infinity();
  // Of a CUDA kernel: how often it takes turns with the libraries that compute the same on the GPU; 0:
  // it is timed alone.
  int rounds = 0;
  TimingOptions timing;
  SpreadOperands spread = {};  // the timed runs read copies of these
  // Where else it is timed, and how.
  std::vector<SizePoint> points = {};
  TimingOptions point_timing = {};
  // Whether the rows that it computes are compared between all these sizes.
  bool compare_rows = false;
};

// Another library beside the kernel.
struct PeerResult {
  double seconds = 0;   // the median of its turns; 0: it took none
  std::string problem;  // why it took none
  std::string note;     // what it computed where that is not the same, and how it was chosen
  std::string version;
  bool checked = false;  // its result was compared with the oracle
};

struct MeasureResult {
  Verdict verdict = Verdict::Ok;
  std::string message;    // empty when ok
  std::string note = {};  // what a reader of the times should know, of one that is ok
  int64_t wrong_index = -1;
  double max_rel_error = 0;
  int64_t compared = 0;
  bool in_full = false;  // it passed all checks
  double pack_seconds = 0;
  // What the checks took, with the operands and right values that they had to make, and the timing.
  double check_seconds = 0, timing_seconds = 0;
  Timing timing;  // no samples unless ok
  std::map<std::string, PeerResult> peers = {};
  std::vector<double> at_points = {};  // medians, in the order of the job's points
  // Stands for the bits of all rows, where the job compares them: kernels of equal text add up in
  // the same order as far as the data can tell. Empty: rows depend on how many there are, or the
  // dimension is not the outermost one of the operands that have it.
  std::string rows_identity = {};
};

std::string to_json(const BuildJob& job);
std::string to_json(const BuildResult& result);
std::string to_json(const MeasureJob& job);
std::string to_json(const MeasureResult& result);
// Each throws Error for text that is not one.
BuildJob build_job_from_json(const std::string& text);
BuildResult build_result_from_json(const std::string& text);
MeasureJob measure_job_from_json(const std::string& text);
MeasureResult measure_result_from_json(const std::string& text);

// What a job that went wrong says of the candidate: crashes, exits, garbage and want of memory are
// Runtime, and a killed one Timeout. Requires that the status is none of Done, NotStarted,
// NoToolchain and Cancelled, which say nothing of it.
MeasureResult failed_measurement(const JobResult& result);

// Reads a workload's canonical text.
using WorkloadParser = std::function<Workload(const std::string& canonical)>;

// The handlers of all jobs. "prepare" takes a measure job and makes what its candidates share, so
// that none of them is held to the time that this takes. The one for "measure" keeps the operands and
// the reference of the last workload, so that many candidates of one share them; the process's main
// thread is pinned by it.
JobHandlers runtime_handlers(WorkloadParser parse);

}  // namespace tilewright
