#include "runtime/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "runtime/check.h"
#include "runtime/check_points.h"
#include "runtime/compile.h"
#include "runtime/cpus.h"
#include "runtime/error.h"
#include "runtime/fences.h"
#include "runtime/same_rows.h"

namespace tilewright {
namespace {

using Dims = std::map<std::string, int64_t>;
using Place = HostArray::Place;

// Operands of a size at which kernels are only timed are made anew each time beyond this.
constexpr int64_t kManyBytes = int64_t{64} << 20;
constexpr double kAboveRoof = 1.05;  // noise of the roof

std::string object_of(const MeasureJob& job) {
  if (job.object_path.empty()) return job.object;
  std::optional<std::string> object = read_cached_object(job.object_path);
  if (!object) throw KernelError("no sound object at '" + job.object_path + "'");
  return std::move(*object);
}

// The right values for one kind of values at one size; made when first asked for.
struct Truth {
  Reference reference;
  int samples = -1;  // that it was made for
};

// The operands at one value of the dynamic dimensions.
struct BenchPoint {
  // Ordinary values. The timed set begins after protected pages, at huge pages' edges where it is
  // large; the fenced one ends before protected pages and shares its weights.
  std::unique_ptr<OperandSet> timed, fenced;
  // Hard values before protected pages, and its weights with the arrays of `timed` for the rest.
  std::unique_ptr<OperandSet> hard, changed;
  Truth ordinary_truth, hard_truth;
};

// Other draws of hard values: few lines and lengths do not take every turn in one.
struct Draw {
  std::unique_ptr<OperandSet> operands;
  Reference reference;
};
// So many, where running and checking one of them takes no longer.
constexpr size_t kMoreDraws = 6;
constexpr double kDrawSeconds = 0.002, kDrawBytes = 1 << 20;

}  // namespace

struct Bench::Impl {
  explicit Impl(WorkloadParser p) : parse(std::move(p)) { name_faults(); }

  MeasureResult measure(const MeasureJob& job);
  void prepare(const MeasureJob& job);

 private:
  void use(const MeasureJob& job);
  ThreadPool& pool_of(int threads);
  OperandSet& timed_at(const Dims& dims);
  OperandSet& fenced_at(const Dims& dims);
  OperandSet& hard_at(const Dims& dims);
  OperandSet& changed_at(const Dims& dims);
  const Reference& right(const Dims& dims, ValueKind kind, int samples);
  static void take(const CheckResult& check, ValueKind kind, MeasureResult* result);
  // Gives the seconds that the checked run took.
  double check(BoundKernel& bound, const Dims& dims, ValueKind kind, const MeasureJob& job,
               MeasureResult* result);
  // Gives the seconds of that run.
  double check_changed(const BoundKernel& hard, const MeasureJob& job, MeasureResult* result);
  void make_draws();
  void check_draws(const BoundKernel& ordinary, const MeasureJob& job, MeasureResult* result);
  void check_further(BoundKernel& bound, double checked_run, const MeasureJob& job,
                     MeasureResult* result);
  void look_again(BoundKernel& ordinary, const BoundKernel& hard, const MeasureJob& job,
                  MeasureResult* result);
  void check_elsewhere(const BoundKernel& ordinary, const BoundKernel& hard, const MeasureJob& job,
                       MeasureResult* result);
  void time_elsewhere(BoundKernel& bound, const MeasureJob& job, MeasureResult* result);
  double time_at(const BoundKernel& bound, const SizePoint& p, OperandSet& operands,
                 const MeasureJob& job);

  struct Key {
    std::string workload;
    Dims dims;
    uint64_t seed = 0;
  };
  WorkloadParser parse;
  Key key;
  std::unique_ptr<Workload> workload;
  std::map<Dims, BenchPoint> points;
  std::vector<Draw> draws;  // at the job's sizes
  std::unique_ptr<ThreadPool> pool;
  CpuClaim caller;
};

Bench::Bench(WorkloadParser parse) : impl_(std::make_unique<Impl>(std::move(parse))) {}
Bench::~Bench() = default;
MeasureResult Bench::measure(const MeasureJob& job) { return impl_->measure(job); }
void Bench::prepare(const MeasureJob& job) { impl_->prepare(job); }

void Bench::Impl::use(const MeasureJob& job) {
  if (workload && job.workload == key.workload && job.dims == key.dims && job.seed == key.seed) {
    return;
  }
  points.clear();  // before the new ones take their memory
  draws.clear();
  workload = std::make_unique<Workload>(parse(job.workload));
  key = {job.workload, job.dims, job.seed};
}

void Bench::Impl::prepare(const MeasureJob& job) {
  use(job);
  pool_of(job.threads);
  if (!job.check) return;
  fenced_at(job.dims);
  changed_at(job.dims);
  right(job.dims, ValueKind::Ordinary, job.samples);
  right(job.dims, ValueKind::Hard, job.samples);
  make_draws();
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

// Sets are made when first asked for; other sizes than the job's share its weights.
OperandSet& Bench::Impl::timed_at(const Dims& dims) {
  BenchPoint& point = points[dims];
  if (!point.timed) {
    std::vector<OperandInfo> infos = operands_of(*workload, dims);
    point.timed = dims == key.dims
                      ? std::make_unique<OperandSet>(std::move(infos), key.seed)
                      : std::make_unique<OperandSet>(std::move(infos), timed_at(key.dims));
    point.timed->protect_inputs(true);
  }
  return *point.timed;
}

OperandSet& Bench::Impl::fenced_at(const Dims& dims) {
  BenchPoint& point = points[dims];
  if (!point.fenced) {
    point.fenced = std::make_unique<OperandSet>(operands_of(*workload, dims), timed_at(key.dims),
                                                Place::BeforeFence);
    point.fenced->protect_inputs(true);
  }
  return *point.fenced;
}

OperandSet& Bench::Impl::hard_at(const Dims& dims) {
  BenchPoint& point = points[dims];
  if (!point.hard) {
    std::vector<OperandInfo> infos = operands_of(*workload, dims);
    point.hard = dims == key.dims
                     ? std::make_unique<OperandSet>(std::move(infos), key.seed, ValueKind::Hard,
                                                    Place::BeforeFence)
                     : std::make_unique<OperandSet>(std::move(infos), hard_at(key.dims));
    point.hard->protect_inputs(true);
  }
  return *point.hard;
}

OperandSet& Bench::Impl::changed_at(const Dims& dims) {
  const OperandSet& hard = hard_at(dims);
  BenchPoint& point = points[dims];
  if (!point.changed) {
    point.changed = std::make_unique<OperandSet>(timed_at(dims).with_weights_of(hard));
  }
  return *point.changed;
}

const Reference& Bench::Impl::right(const Dims& dims, ValueKind kind, int samples) {
  const bool hard = kind == ValueKind::Hard;
  OperandSet& operands = hard ? hard_at(dims) : fenced_at(dims);
  Truth& truth = hard ? points[dims].hard_truth : points[dims].ordinary_truth;
  if (truth.samples == samples) return truth.reference;
  ReferenceLimits limits{.samples = samples};
  limits.seconds *= pool->threads();
  truth.reference = reference_of(oracle_on(*workload, operands, dims), operands.output(), limits,
                                 hard ? ~key.seed : key.seed, parallel_on(*pool));
  truth.samples = samples;
  return truth.reference;
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
  CheckResult check = check_kernel(bound, right(dims, kind, job.samples));
  take(check, kind, result);
  return check.run_seconds;
}

// The kernel at the addresses of the timed runs, on other values than these saw.
double Bench::Impl::check_changed(const BoundKernel& hard, const MeasureJob& job,
                                  MeasureResult* result) {
  OperandSet& changed = changed_at(job.dims);
  changed.copy_activations(hard_at(job.dims));
  changed.protect_inputs(true);
  BoundKernel again(hard, changed, dim_values(*workload, job.dims), *pool);
  const double seconds = check(again, job.dims, ValueKind::Hard, job, result);
  OperandSet& timed = timed_at(job.dims);
  timed.refill_activations();
  timed.protect_inputs(true);
  return seconds;
}

// Draws are made once a workload, where its operands are few and the oracle takes a moment.
void Bench::Impl::make_draws() {
  OperandSet& hard = hard_at(key.dims);
  const double seconds = oracle_on(*workload, hard, key.dims)->whole_cost().seconds;
  if (!draws.empty() || seconds > kDrawSeconds || hard.bytes() > kDrawBytes) return;
  for (size_t i = 0; i < kMoreDraws; ++i) {
    auto operands = std::make_unique<OperandSet>(hard.infos(), key.seed + i + 1, ValueKind::Hard,
                                                 Place::BeforeFence);
    operands->protect_inputs(true);
    Reference reference = reference_of(oracle_on(*workload, *operands, key.dims),
                                       operands->output(), {}, key.seed, parallel_on(*pool));
    draws.push_back({std::move(operands), std::move(reference)});
  }
}

void Bench::Impl::check_draws(const BoundKernel& ordinary, const MeasureJob& job,
                              MeasureResult* result) {
  make_draws();
  const std::vector<int64_t> dims = dim_values(*workload, job.dims);
  for (Draw& draw : draws) {
    if (result->verdict != Verdict::Ok) return;
    BoundKernel bound(ordinary.kernel(), *draw.operands, dims, *pool);
    take(check_kernel(bound, draw.reference), ValueKind::Hard, result);
    if (bound.pack_seconds() > kDrawSeconds) return;
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
  int turn = 0;
  auto check_at = [&](const Dims& dims, ValueKind kind) {
    const bool is_hard = kind == ValueKind::Hard;
    BoundKernel other(is_hard ? hard : ordinary, is_hard ? hard_at(dims) : fenced_at(dims),
                      dim_values(*workload, dims), *pool);
    check(other, dims, kind, job, result);
    if (result->verdict == Verdict::Ok) return;
    result->message += " at " + sizes_text(dims);
  };
  for (const Dims& dims : check_points(*workload, job.description.sizes)) {
    if (dims == job.dims) continue;
    if (result->verdict == Verdict::Ok) check_at(dims, ValueKind::Ordinary);
    if (result->verdict == Verdict::Ok && turn++ % 3 == 0) check_at(dims, ValueKind::Hard);
  }
  // Candidates share some of their sizes; what they need of each other's is not kept at any price.
  double bytes = 0;
  for (const auto& [dims, point] : points) {
    for (const auto& set : {point.timed.get(), point.fenced.get(), point.hard.get()}) {
      if (set != nullptr && dims != key.dims) bytes += static_cast<double>(set->bytes());
    }
  }
  if (bytes < kManyBytes) return;
  std::erase_if(points, [&](const auto& entry) { return entry.first != key.dims; });
}

// Times the kernel at the job's other sizes, and compares the rows that it computes there.
void Bench::Impl::time_elsewhere(BoundKernel& bound, const MeasureJob& job, MeasureResult* result) {
  bool same_rows = job.compare_rows && !job.points.empty();
  if (same_rows) bound.run();
  for (const SizePoint& p : job.points) {
    OperandSet& timed = timed_at(p.dims);
    result->at_points.push_back(time_at(bound, p, timed, job));
    same_rows = same_rows && begins_alike(timed, bound.operands());
    if (p.dims != job.dims && timed.bytes() > kManyBytes) points.erase(p.dims);
  }
  if (same_rows) result->rows_identity = rows_identity(bound.operands());
}

double Bench::Impl::time_at(const BoundKernel& bound, const SizePoint& p, OperandSet& operands,
                            const MeasureJob& job) {
  BoundKernel other(bound, operands, dim_values(*workload, p.dims), *pool);
  TimingOptions timing = job.point_timing;
  timing.cutoff_seconds = p.cutoff_seconds;
  timing.threads = job.threads;
  return tilewright::measure([&] { other.run(); }, timing).median;
}

// The checks after the timing: on hard values, at other sizes, and of what is too fast.
void Bench::Impl::check_further(BoundKernel& bound, double checked_run, const MeasureJob& job,
                                MeasureResult* result) {
  BoundKernel hard(bound.kernel(), hard_at(job.dims), dim_values(*workload, job.dims), *pool);
  const double changed_run = check_changed(hard, job, result);
  // Two runs so slow are a measurement: what disturbs one seldom disturbs the other as much.
  if (job.time && checked_run >= job.timing.lone_run_seconds) {
    result->timing = lone_run(std::min(checked_run, changed_run), job.timing);
  }
  if (result->verdict == Verdict::Ok) check_draws(bound, job, result);
  if (result->verdict == Verdict::Ok) check_elsewhere(bound, hard, job, result);
  const bool above_roof = job.time && result->timing.median < job.roof_seconds / kAboveRoof;
  if (result->verdict == Verdict::Ok && above_roof) look_again(bound, hard, job, result);
}

MeasureResult Bench::Impl::measure(const MeasureJob& job) {
  use(job);
  pool_of(job.threads);
  MeasureResult result;
  auto right = [&] { return result.verdict == Verdict::Ok; };
  try {
    Kernel kernel(object_of(job), job.description);
    const std::vector<int64_t> dims = dim_values(*workload, job.dims);
    BoundKernel bound(kernel, timed_at(job.dims), dims, *pool);
    result.pack_seconds = bound.pack_seconds();
    double checked_run = 0;
    if (job.check) {
      Stopwatch watch(result.check_seconds);
      BoundKernel fenced(bound, fenced_at(job.dims), dims, *pool);
      checked_run = check(fenced, job.dims, ValueKind::Ordinary, job, &result);
    }
    const bool slow = job.check && checked_run >= job.timing.lone_run_seconds;
    if (job.time && !slow && right()) {
      Stopwatch watch(result.timing_seconds);
      TimingOptions timing = job.timing;
      timing.threads = job.threads;
      result.timing = measure_again_while_disturbed([&] { bound.run(); }, timing);
    }
    if (job.check && right()) {
      Stopwatch watch(result.check_seconds);
      check_further(bound, checked_run, job, &result);
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
