#include "runtime/worker/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "runtime/check/check.h"
#include "runtime/check/check_data.h"
#include "runtime/check/check_points.h"
#include "runtime/check/same_rows.h"
#include "runtime/check/spread_weights.h"
#include "runtime/compile/compile.h"
#include "runtime/error.h"
#include "runtime/machine/cpus.h"
#include "runtime/tensor/fences.h"

namespace tilewright {
namespace {

using Dims = std::map<std::string, int64_t>;

std::string object_of(const MeasureJob& job) {
  if (job.object_path.empty()) return job.object;
  std::optional<std::string> object = read_cached_object(job.object_path);
  if (!object) throw KernelError("no sound object at '" + job.object_path + "'");
  return std::move(*object);
}

}  // namespace

struct Bench::Impl {
  explicit Impl(WorkloadParser p) : parse(std::move(p)) { name_faults(); }

  MeasureResult measure(const MeasureJob& job);
  void prepare(const MeasureJob& job);

 private:
  void use(const MeasureJob& job);
  ThreadPool& pool_of(int threads);
  std::vector<int64_t> values_of(const Dims& dims) const {
    return dim_values(data->workload(), dims);
  }
  static bool is_hard_turn(size_t number) { return number % 3 == 0; }
  static void take(const CheckResult& check, ValueKind kind, MeasureResult* result);
  // Gives the seconds that the checked run took.
  double check(BoundKernel& bound, const Dims& dims, ValueKind kind, const MeasureJob& job,
               MeasureResult* result);
  // Gives the seconds of that run.
  double check_changed(const BoundKernel& hard, const MeasureJob& job, MeasureResult* result);
  void check_draws(const BoundKernel& ordinary, const MeasureJob& job, MeasureResult* result);
  void check_further(BoundKernel& bound, const MeasureJob& job, MeasureResult* result);
  void look_again(BoundKernel& ordinary, const BoundKernel& hard, const MeasureJob& job,
                  MeasureResult* result);
  void check_elsewhere(const BoundKernel& ordinary, const BoundKernel& hard, const MeasureJob& job,
                       MeasureResult* result);
  void time_elsewhere(BoundKernel& bound, const MeasureJob& job, MeasureResult* result);
  double time_at(const BoundKernel& bound, const SizePoint& p, OperandSet& operands,
                 const MeasureJob& job);

  WorkloadParser parse;
  std::string text;  // of the workload
  std::unique_ptr<CheckData> data;
  std::unique_ptr<ThreadPool> pool;
  CpuClaim caller;
};

Bench::Bench(WorkloadParser parse) : impl_(std::make_unique<Impl>(std::move(parse))) {}
Bench::~Bench() = default;
MeasureResult Bench::measure(const MeasureJob& job) { return impl_->measure(job); }
void Bench::prepare(const MeasureJob& job) { impl_->prepare(job); }

void Bench::Impl::use(const MeasureJob& job) {
  if (data && job.workload == text && job.dims == data->dims() && job.seed == data->seed()) return;
  data.reset();  // before the new ones take their memory
  data = std::make_unique<CheckData>(parse(job.workload), job.dims, job.seed);
  text = job.workload;
}

void Bench::Impl::prepare(const MeasureJob& job) {
  use(job);
  pool_of(job.threads);
  if (!job.check) return;
  data->fenced(job.dims);
  data->changed();
  data->right(job.dims, ValueKind::Ordinary, job.samples, *pool);
  data->right(job.dims, ValueKind::Hard, job.samples, *pool);
  data->draws();
  size_t number = 0;
  for (const Dims& dims : check_points(data->workload(), job.description.sizes)) {
    data->keep_within_limits();
    data->right(dims, ValueKind::Ordinary, job.samples, *pool);
    if (is_hard_turn(number++)) data->right(dims, ValueKind::Hard, job.samples, *pool);
  }
}

ThreadPool& Bench::Impl::pool_of(int threads) {
  if (!pool || pool->threads() != threads) {
    pool.reset();
    pool = std::make_unique<ThreadPool>(threads);
    caller = {};  // it takes part in the work, and keeps to a processor as the helpers do
    if (threads <= static_cast<int>(available_cpus().size())) caller = CpuClaim::take();
    caller.pin();
  }
  return *pool;
}

void Bench::Impl::take(const CheckResult& check, ValueKind kind, MeasureResult* result) {
  // Guards tell of writes next to the arrays, not of those further off.
  if (check.verdict == Verdict::OutOfBounds) retire_worker();
  result->verdict = check.verdict;
  result->message = check.message;
  result->wrong_index = check.index;
  result->max_rel_error = std::max(result->max_rel_error, check.max_rel_error);
  result->compared += check.compared;
  if (check.verdict != Verdict::Ok && kind == ValueKind::Hard) {
    result->message += ", on hard values";
  }
}

double Bench::Impl::check(BoundKernel& bound, const Dims& dims, ValueKind kind,
                          const MeasureJob& job, MeasureResult* result) {
  CheckResult check = check_kernel(bound, data->right(dims, kind, job.samples, *pool));
  take(check, kind, result);
  return check.run_seconds;
}

// The kernel at the addresses of the timed runs, on other values than these saw.
double Bench::Impl::check_changed(const BoundKernel& hard, const MeasureJob& job,
                                  MeasureResult* result) {
  OperandSet &changed = data->changed(), &timed = data->timed(job.dims);
  changed.copy_activations(data->hard(job.dims));
  changed.protect_inputs(true);
  BoundKernel again(hard, changed, values_of(job.dims), *pool);
  const double seconds = check(again, job.dims, ValueKind::Hard, job, result);
  timed.copy_activations(data->fenced(job.dims));
  timed.protect_inputs(true);
  return seconds;
}

void Bench::Impl::check_draws(const BoundKernel& ordinary, const MeasureJob& job,
                              MeasureResult* result) {
  for (const CheckData::Draw& draw : data->draws()) {
    if (result->verdict != Verdict::Ok) return;
    BoundKernel bound(ordinary.kernel(), *draw.operands, values_of(job.dims), *pool);
    take(check_kernel(bound, draw.reference), ValueKind::Hard, result);
    if (bound.pack_seconds() > CheckData::kDrawSeconds) return;
  }
}

// A kernel above the roof computes less than the workload's count says (padding, zeros), or cheats.
// Single calls on operands that change from one to the next are timed and checked: what is kept from
// an earlier call, or left out in a row of calls, shows in either.
void Bench::Impl::look_again(BoundKernel& ordinary, const BoundKernel& hard, const MeasureJob& job,
                             MeasureResult* result) {
  constexpr int kLooks = 10;
  constexpr double kSlower = 3, kCallSeconds = 50e-6;  // caches are cold in single calls
  double least = std::numeric_limits<double>::infinity();
  for (int look = 0; look < kLooks && result->verdict == Verdict::Ok; ++look) {
    // The call before these was on changed operands.
    const double seconds = look % 2 == 0
                               ? check(ordinary, job.dims, ValueKind::Ordinary, job, result)
                               : check_changed(hard, job, result);
    least = std::min(least, seconds);
  }
  if (result->verdict != Verdict::Ok) return;
  const double claimed = result->timing.median;
  result->note = fmt::format(
      "{:.2f} times the measured roof; {} more calls on changed operands were right and took "
      "{:.3g} us at least, {:.3g} us in the timed runs",
      job.roof_seconds / claimed, kLooks, least * 1e6, claimed * 1e6);
  if (least < kSlower * claimed + kCallSeconds) return;
  result->verdict = Verdict::Wrong;
  result->message = "the kernel is faster on operands that do not change: " + result->note;
}

// Checks the kernel at other sizes of the workload's dynamic dimensions, while it is right: on ordinary
// values, whose bounds are the narrowest, and at every third size on hard ones, too.
void Bench::Impl::check_elsewhere(const BoundKernel& ordinary, const BoundKernel& hard,
                                  const MeasureJob& job, MeasureResult* result) {
  auto check_at = [&](const Dims& dims, ValueKind kind) {
    const bool is_hard = kind == ValueKind::Hard;
    BoundKernel other(is_hard ? hard : ordinary, is_hard ? data->hard(dims) : data->fenced(dims),
                      values_of(dims), *pool);
    check(other, dims, kind, job, result);
    if (result->verdict == Verdict::Ok) return;
    result->message += " at " + sizes_text(dims);
  };
  size_t number = 0;
  for (const Dims& dims : check_points(data->workload(), job.description.sizes)) {
    if (result->verdict == Verdict::Ok) check_at(dims, ValueKind::Ordinary);
    const bool hard_turn = is_hard_turn(number++);
    if (result->verdict == Verdict::Ok && hard_turn) check_at(dims, ValueKind::Hard);
    data->keep_within_limits();
  }
}

// Times the kernel at the job's other sizes, and compares the rows that it computes there.
void Bench::Impl::time_elsewhere(BoundKernel& bound, const MeasureJob& job, MeasureResult* result) {
  bool same_rows = job.compare_rows && !job.points.empty();
  if (same_rows) bound.run();
  for (const SizePoint& p : job.points) {
    OperandSet& timed = data->timed(p.dims);
    result->at_points.push_back(time_at(bound, p, timed, job));
    same_rows = same_rows && begins_alike(timed, bound.operands());
    data->keep_within_limits();
  }
  if (same_rows) result->rows_identity = rows_identity(bound.operands());
}

double Bench::Impl::time_at(const BoundKernel& bound, const SizePoint& p, OperandSet& operands,
                            const MeasureJob& job) {
  BoundKernel other(bound, operands, values_of(p.dims), *pool);
  TimingOptions timing = job.point_timing;
  timing.cutoff_seconds = p.cutoff_seconds;
  timing.threads = job.threads;
  SpreadWeights spread(other, job.spread);
  return tilewright::measure([&] { spread.run(); }, timing).median;
}

// The checks after the timing: on hard values, at other sizes, and of what is too fast.
void Bench::Impl::check_further(BoundKernel& bound, const MeasureJob& job, MeasureResult* result) {
  BoundKernel hard(bound.kernel(), data->hard(job.dims), values_of(job.dims), *pool);
  const double changed_run = check_changed(hard, job, result);
  // Two runs so slow are a measurement: what disturbs one seldom disturbs the other as much.
  if (job.time && result->timing.median >= job.timing.lone_run_seconds) {
    result->timing = lone_run(std::min(result->timing.median, changed_run), job.timing);
  }
  if (result->verdict == Verdict::Ok) check_draws(bound, job, result);
  if (result->verdict == Verdict::Ok) check_elsewhere(bound, hard, job, result);
  const bool above_roof = job.time && result->timing.median < job.roof_seconds / kAboveRoof;
  if (result->verdict == Verdict::Ok && above_roof) look_again(bound, hard, job, result);
  result->in_full = result->verdict == Verdict::Ok;
}

MeasureResult Bench::Impl::measure(const MeasureJob& job) {
  use(job);
  pool_of(job.threads);
  MeasureResult result;
  auto right = [&] { return result.verdict == Verdict::Ok; };
  try {
    Kernel kernel(object_of(job), job.description);
    const std::vector<int64_t> dims = values_of(job.dims);
    BoundKernel bound(kernel, data->timed(job.dims), dims, *pool);
    result.pack_seconds = bound.pack_seconds();
    double checked_run = 0;
    if (job.check) {
      Stopwatch watch(result.check_seconds);
      BoundKernel fenced(bound, data->fenced(job.dims), dims, *pool);
      checked_run = check(fenced, job.dims, ValueKind::Ordinary, job, &result);
    }
    const bool slow = job.check && checked_run >= job.timing.lone_run_seconds;
    if (job.time && slow) {
      // The checked run is the measurement, and is counted as such.
      result.timing = lone_run(checked_run, job.timing);
      result.timing_seconds += checked_run;
      result.check_seconds -= checked_run;
    }
    if (job.time && !slow && right()) {
      Stopwatch watch(result.timing_seconds);
      TimingOptions timing = job.timing;
      timing.threads = job.threads;
      timing.coarse_above_seconds = job.keep_seconds;
      SpreadWeights spread(bound, job.spread);
      result.timing = measure_again_while_disturbed([&] { spread.run(); }, timing);
    }
    if (job.check && right() && result.timing.median <= job.keep_seconds) {
      Stopwatch watch(result.check_seconds);
      check_further(bound, job, &result);
    }
    if (right()) {
      Stopwatch watch(result.timing_seconds);
      time_elsewhere(bound, job, &result);
    }
  } catch (const KernelError& e) {
    result.verdict = Verdict::Runtime;
    result.message = e.what();
  }
  if (!right()) result.timing = {};
  return result;
}

}  // namespace tilewright
