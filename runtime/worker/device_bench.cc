#include "runtime/worker/device_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/knobs.h"
#include "kernel/instructions/tensor_sums.h"
#include "runtime/check/check_points.h"
#include "runtime/check/same_rows.h"
#include "runtime/error.h"
#include "runtime/machine/cpus.h"
#include "runtime/worker/rival.h"
#include "runtime/worker/worker.h"

namespace tilewright::cuda {
namespace {

// The first element that kept its poison in a run of either kind: a legal value may equal one of them
// by chance, not both.
std::vector<int64_t> left_twice(const std::vector<bool>& first, const std::vector<bool>& second) {
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] && second[i]) return {static_cast<int64_t>(i)};
  }
  return {};
}

// Operands of a size at which kernels are only timed are made anew each time beyond this.
constexpr int64_t kManyBytes = int64_t{256} << 20;

}  // namespace

Device& DeviceBench::device() {
  if (!device_) {
    try {
      device_ = std::make_unique<Device>(0, knob_text(Knob::CudaDriver));
    } catch (const DeviceError& e) {
      throw ToolchainError(e.what());  // says nothing of the candidate
    }
  }
  return *device_;
}

ThreadPool& DeviceBench::pool() {
  if (!pool_) pool_ = std::make_unique<ThreadPool>(available_cores());
  return *pool_;
}

void DeviceBench::use(const MeasureJob& job, const WorkloadParser& parse) {
  std::string key = fmt::format("{} {} {}", job.seed, job.samples, job.workload);
  if (workload_ && key == key_) return;
  ordinary_.clear();  // before the new ones take their memory
  hard_.clear();
  workload_ = std::make_unique<Workload>(parse(job.workload));
  key_ = key;
}

void DeviceBench::prepare(const MeasureJob& job, const WorkloadParser& parse) {
  device();
  try {
    use(job, parse);
    if (!job.check) return;
    for (ValueKind kind : {ValueKind::Ordinary, ValueKind::Hard}) reference_at(job.dims, job, kind);
  } catch (const DeviceError&) {
    retire_worker();  // the context may be lost
    throw;
  }
}

// Made when first asked for.
DeviceBench::Point& DeviceBench::at(const Dims& dims, const MeasureJob& job, ValueKind kind) {
  Points& points = kind == ValueKind::Hard ? hard_ : ordinary_;
  if (const auto known = points.find(dims); known != points.end()) return known->second;
  std::vector<OperandInfo> infos = operands_of(*workload_, dims);
  Point point;
  if (points.empty()) {
    point.host = std::make_unique<OperandSet>(std::move(infos), job.seed, kind);
    point.operands = std::make_unique<DeviceOperands>(device(), *point.host);
  } else {
    const Point& first = points.begin()->second;
    point.host = std::make_unique<OperandSet>(std::move(infos), *first.host);
    point.operands = std::make_unique<DeviceOperands>(device(), *point.host, *first.operands);
  }
  return points.emplace(dims, std::move(point)).first->second;
}

const Reference& DeviceBench::reference_at(const Dims& dims, const MeasureJob& job,
                                           ValueKind kind) {
  Point& point = at(dims, job, kind);
  if (!point.reference) {
    ReferenceLimits limits{.samples = job.samples};
    limits.seconds *= pool().threads();
    const auto oracle =
        oracle_on(*workload_, *point.host, dims, narrow_sums(device().facts().compute_capability));
    point.reference =
        reference_of(oracle, point.host->output(), limits,
                     kind == ValueKind::Hard ? ~job.seed : job.seed, parallel_on(pool()));
  }
  return *point.reference;
}

// The program on the operands at these dimensions, its weights packed for it.
DeviceProgram DeviceBench::load(const MeasureJob& job, const CudaDescription& description,
                                const Dims& dims, MeasureResult& result, ValueKind kind) {
  DeviceOperands& operands = *at(dims, job, kind).operands;
  std::vector<int64_t> values = dim_values(*workload_, dims);
  result.pack_seconds += operands.pack(description, pool());
  return {device(), job.object, description, operands.addresses(description.source, values),
          values};
}

void DeviceBench::check(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
                        ValueKind kind, MeasureResult& result) {
  DeviceProgram program = load(job, description, dims, result, kind);
  check_program(job, program, dims, kind, result);
}

// Right is what writes every element, nothing beside them or in the inputs, and the elements of the
// reference within their bounds.
void DeviceBench::check_program(const MeasureJob& job, DeviceProgram& program, const Dims& dims,
                                ValueKind kind, MeasureResult& result) {
  Point& point = at(dims, job, kind);
  HostArray& output = point.host->output();
  using enum HostArray::Poison;
  point.operands->run_once(program, First);
  std::vector<int64_t> unwritten = output.poisoned(First);
  if (!unwritten.empty() && !output.poison_is_proof()) {
    std::vector<bool> left = output.poison_map(First);
    point.operands->run_once(program, Second);
    unwritten = left_twice(left, output.poison_map(Second));
  }
  std::optional<std::string> changed = point.operands->restore_inputs();
  if (point.operands->wrote_beside()) {
    result.verdict = Verdict::OutOfBounds;
    result.message = fmt::format("the kernel writes beside its output '{}'", output.name());
  } else if (changed) {
    result.verdict = Verdict::Wrong;
    result.message = fmt::format("the kernel changed its input '{}'", *changed);
  } else if (!unwritten.empty()) {
    result.verdict = Verdict::Wrong;
    result.wrong_index = unwritten.front();
    result.message = fmt::format("{}{} was not written", output.name(),
                                 subscripts(output.shape(), result.wrong_index));
  } else {
    CheckResult check = compare(output, reference_at(dims, job, kind), parallel_on(pool()));
    result.verdict = check.verdict;
    result.message = check.message;
    result.wrong_index = check.index;
    result.max_rel_error = std::max(result.max_rel_error, check.max_rel_error);
    result.compared += check.compared;
  }
  if (result.verdict == Verdict::Ok) return;
  if (kind == ValueKind::Hard) result.message += ", on hard values";
  if (dims != job.dims) result.message += " at " + sizes_text(dims);
}

void DeviceBench::check_elsewhere(const MeasureJob& job, const CudaDescription& description,
                                  MeasureResult& result) {
  int turn = 0;
  for (const Dims& dims :
       check_points(*workload_, description.source.sizes, {.has_tails = false})) {
    if (dims == job.dims) continue;
    if (result.verdict == Verdict::Ok) {
      check(job, description, dims, ValueKind::Ordinary, result);
    }
    if (result.verdict == Verdict::Ok && turn++ % 3 == 0) {
      check(job, description, dims, ValueKind::Hard, result);
    }
  }
}

Timing DeviceBench::time(const MeasureJob& job, const CudaDescription& description,
                         const Dims& dims, const TimingOptions& options, MeasureResult& result) {
  DeviceProgram program = load(job, description, dims, result);
  Timing timing = time_on_device(
      device(), [&] { program.launch(); }, options);
  // The program that was timed, lest it has ceased to compute meanwhile.
  if (job.check && dims == job.dims) {
    check_program(job, program, dims, ValueKind::Ordinary, result);
    if (result.verdict != Verdict::Ok) result.message += ", after it was timed";
  }
  return timing;
}

// Leaves what the kernel computes there in the output on the host.
void DeviceBench::run_at(const MeasureJob& job, const CudaDescription& description,
                         const Dims& dims, MeasureResult& result) {
  DeviceProgram program = load(job, description, dims, result);
  at(dims, job).operands->run_once(program, HostArray::Poison::First);
}

// Times the kernel at the job's other sizes, and compares the rows that it computes there.
void DeviceBench::time_elsewhere(const MeasureJob& job, const CudaDescription& description,
                                 MeasureResult& result) {
  bool same_rows = job.compare_rows && !job.points.empty();
  if (same_rows) run_at(job, description, job.dims, result);
  for (const SizePoint& p : job.points) {
    TimingOptions timing = job.point_timing;
    timing.cutoff_seconds = p.cutoff_seconds;
    result.at_points.push_back(time(job, description, p.dims, timing, result).median);
    if (same_rows && p.dims != job.dims) {
      run_at(job, description, p.dims, result);
      same_rows = begins_alike(*at(p.dims, job).host, *at(job.dims, job).host);
    }
    const Point& point = at(p.dims, job);
    const bool kept = p.dims == job.dims || point.reference;
    if (!kept && point.host->bytes() > kManyBytes) ordinary_.erase(p.dims);
  }
  if (same_rows) result.rows_identity = rows_identity(*at(job.dims, job).host);
}

// The kernel and the libraries that compute the same, one after another so many times.
void DeviceBench::take_turns(const MeasureJob& job, const CudaDescription& description,
                             MeasureResult& result) {
  Point& point = at(job.dims, job);
  DeviceProgram program = load(job, description, job.dims, result);
  if (!peers_) peers_ = find_gpu_peers();
  std::vector<std::unique_ptr<GpuRival>> rivals;
  for (const auto& peer : *peers_) {
    PeerResult& told = result.peers[peer->name()];
    told.version = peer->version();
    rivals.push_back(make_rival(device(), *peer, *workload_, *point.host, *point.operands,
                                reference_at(job.dims, job, ValueKind::Ordinary), told));
  }
  Timing own;
  std::map<std::string, Timing> turns;
  for (int round = 0; round < job.rounds; ++round) {
    Timing t = time_on_device(
        device(), [&] { program.launch(); }, job.timing);
    own.samples.push_back(t.median);
    for (size_t i = 0; i < rivals.size(); ++i) {
      if (!rivals[i]) continue;
      t = time_on_device(
          device(), [&] { rivals[i]->problem->launch(); }, job.timing);
      turns[(*peers_)[i]->name()].samples.push_back(t.median);
    }
  }
  own.cache = CacheState::Cold;
  summarize(&own);
  result.timing = own;
  for (auto& [name, turn] : turns) {
    summarize(&turn);
    result.peers[name].seconds = turn.median;
  }
}

MeasureResult DeviceBench::measure(const MeasureJob& job, const WorkloadParser& parse) {
  MeasureResult result;
  device();
  try {
    CudaDescription description = CudaDescription::from_json(job.cuda);
    use(job, parse);
    if (job.check) {
      Stopwatch watch(result.check_seconds);
      check(job, description, job.dims, ValueKind::Ordinary, result);
    }
    if (job.time && result.verdict == Verdict::Ok) {
      Stopwatch watch(result.timing_seconds);
      if (job.rounds > 0) {
        take_turns(job, description, result);
      } else {
        result.timing = time(job, description, job.dims, job.timing, result);
      }
    }
    if (job.check && result.verdict == Verdict::Ok) {
      Stopwatch watch(result.check_seconds);
      check(job, description, job.dims, ValueKind::Hard, result);
      check_elsewhere(job, description, result);
      result.in_full = result.verdict == Verdict::Ok;
    }
    if (result.verdict == Verdict::Ok) {
      Stopwatch watch(result.timing_seconds);
      time_elsewhere(job, description, result);
    }
  } catch (const DeviceError& e) {
    retire_worker();  // the context is lost with the kernel
    result.verdict = Verdict::Runtime;
    result.message = e.what();
  } catch (const KernelError& e) {
    result.verdict = Verdict::Runtime;
    result.message = e.what();
  }
  if (result.verdict == Verdict::OutOfBounds) retire_worker();
  if (result.verdict != Verdict::Ok) result.timing = {};
  return result;
}

}  // namespace tilewright::cuda
