#include "tuner/measure/emulated_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "codegen/codegen.h"
#include "codegen/cuda_lowering.h"
#include "emulator/emulate_program.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "kernel/instructions/tensor_sums.h"
#include "runtime/check/check_points.h"
#include "runtime/check/reference.h"
#include "runtime/check/same_rows.h"
#include "runtime/error.h"
#include "runtime/tensor/operands.h"
#include "schedule/error.h"

namespace tilewright {
namespace {

constexpr double kReferenceSeconds = 2;
// The emulator is slow, and GPU tiles are padded to full size, so tails need no sizes of their own.
constexpr CheckBudget kBudget = {
    .times = 1.5, .seconds = 0, .least_points = 4, .most_points = 6, .has_tails = false};
constexpr uint64_t kOperandSeed = 1;
constexpr int kOrders = 2;  // of threads: one with ordinary values, the other one with hard ones

}  // namespace

EmulatedRun run_emulated(const Workload& w, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed) {
  OperandSet operands(operands_of(w, dims), seed);
  return run_emulated(w, source, dims, seed, operands);
}

EmulatedRun run_emulated(const Workload& w, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed,
                         OperandSet& operands, uint64_t order) {
  EmulatorOptions options;
  options.seed = order;
  EmulatorResult result;
  try {
    result = emulate_program({source, {}}, operands, dim_values(w, dims), options);
  } catch (const KernelError& e) {
    return {e.what(), {}};
  }
  EmulatedRun run;
  run.counters = result.counters;
  if (!result.ok()) {
    run.problem = result.fault->to_string();
    return run;
  }
  if (const auto changed = operands.changed_input()) {
    run.problem = fmt::format("the kernel changed its input '{}'", *changed);
    return run;
  }
  const int capability = Target::parse(source.target).gpu.compute_capability;
  const HostArray& output = operands.output();
  const Reference reference = reference_of(oracle_on(w, operands, dims, narrow_sums(capability)),
                                           output, {.seconds = kReferenceSeconds}, seed);
  run.problem = compare(output, reference).message;
  return run;
}

namespace {

// Target chips on which a small instance may take the config: the target itself, and variants with
// few SMs. With few SMs, each block of a persistent grid gets several tiles.
std::vector<Target> chips_for(const Target& target, const std::string& config) {
  constexpr int kFew[] = {5, 3, 2, 1};
  std::vector<Target> chips = {target};
  if (config.find(".grid\"") == std::string::npos) return chips;
  for (int sms : kFew) {
    chips.push_back(target);
    chips.back().gpu.sms = sms;
  }
  return chips;
}

// Whether blocks share the reduction of tiles (stream-K), which depends on the number of tiles.
bool shares_terms(const Program& program) {
  bool shares = false;
  for_each_stmt(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    if (loop == nullptr) return;
    for (const auto& [name, value] : loop->annotations) shares |= name == kStreamedKey;
  });
  return shares;
}

}  // namespace

EmulatedCheck check_instance(const SmallInstance& small) {
  const Workload& w = small.workload;
  const CudaSource& source = small.source;
  EmulatedCheck check{spec_to_inline(parse_spec(w.canonical)), {}};
  check.exercise = small.exercise;
  check.orders = kOrders;
  const auto largest = largest_sizes(w);
  OperandSet operands(operands_of(w, largest), kOperandSeed);
  check.run = run_emulated(w, source, largest, kOperandSeed, operands);
  bool same_rows = !w.dims.empty() && !shares_terms(small.program);
  for (const auto& dims : check_points(w, source.sizes, kBudget)) {
    if (!check.run.problem.empty()) return check;
    OperandSet fewer(operands_of(w, dims), operands);
    const EmulatedRun run = run_emulated(w, source, dims, kOperandSeed, fewer);
    if (!run.problem.empty()) check.run.problem = run.problem + " at " + sizes_text(dims);
    same_rows = same_rows && begins_alike(fewer, operands);
  }
  if (same_rows) check.rows = rows_identity(operands);
  if (!check.run.problem.empty()) return check;
  OperandSet hard(operands_of(w, largest), kOperandSeed, ValueKind::Hard);
  check.run.problem = run_emulated(w, source, largest, kOperandSeed, hard, kOrders).problem;
  if (!check.run.problem.empty()) check.run.problem += ", on hard values";
  return check;
}

namespace {

// The config on an instance for these chips: the one that exercises it most; nothing where none
// takes it.
std::optional<SmallInstance> applied(const Workload& w, const std::vector<Target>& chips,
                                     const Sketch& sketch, const std::string& config) {
  std::optional<SmallInstance> best;
  for (const Target& chip : chips) {
    try {
      Trial trial = Trial::replay(config);
      Schedule schedule = apply_sketch(sketch, {w, chip, 1}, trial);
      const Exercise exercise = exercise_of(schedule.program());
      if (best && best->exercise.missing() <= exercise.missing()) continue;
      best = SmallInstance{w, schedule.module().main, generate_cuda(schedule.module(), chip),
                           exercise};
    } catch (const ScheduleError& e) {  // other sizes may have other knobs
      spdlog::debug("{}: {}", spec_to_inline(parse_spec(w.canonical)), e.what());
    } catch (const LoweringError& e) {
      spdlog::debug("{}: {}", spec_to_inline(parse_spec(w.canonical)), e.what());
    }
    if (best && best->exercise.is_whole()) break;
  }
  return best;
}

// Sizes at which a ring has enough iterations and leaves a remainder, the least one first: between sizes with those
// of `small` and `next`. More than one, since a size may have to be a multiple of groups. None where the size is not
// of the ring's loop, or iterations are not in proportion to it.
std::vector<int64_t> sizes_for_ring(const Exercise& small, const Exercise& next,
                                    const LongerInstance& instance) {
  constexpr int64_t kTried = 4;
  const int64_t more = next.iterations - small.iterations, step = instance.to - instance.from;
  std::vector<int64_t> sizes;
  if (small.stages == 0 || next.stages != small.stages || more <= 0 || step % more != 0) return {};
  for (int64_t n = small.next_iterations(); std::ssize(sizes) < kTried; ++n) {
    if (n % small.stages != 0) {
      sizes.push_back(instance.from + (n - small.iterations) * (step / more));
    }
  }
  return sizes;
}

// Lets one size after the other grow until the config is exercised enough, or none helps.
SmallInstance longer(SmallInstance small, const Workload& large, const std::vector<Target>& chips,
                     const Sketch& sketch, const std::string& config) {
  constexpr int kMostSteps = 10;
  for (int step = 0; step < kMostSteps && !small.exercise.is_whole(); ++step) {
    std::optional<SmallInstance> best;
    auto gain = [&](const SmallInstance& s) {
      return (small.exercise.missing() - s.exercise.missing()) /
             (s.workload.flops - small.workload.flops + 1);
    };
    auto consider = [&](std::optional<SmallInstance> next) {
      const bool is_better =
          next && is_emulated_in_seconds(next->workload) && gain(*next) > (best ? gain(*best) : 0);
      if (is_better) best = std::move(next);
    };
    for (const LongerInstance& instance : longer_instances(small.workload, large)) {
      auto next = applied(instance.workload, chips, sketch, config);
      if (!next) continue;
      for (int64_t size : sizes_for_ring(small.exercise, next->exercise, instance)) {
        const auto w = with_size(small.workload, instance.size, size);
        auto exact = w ? applied(*w, chips, sketch, config) : std::nullopt;
        if (!exact) continue;
        consider(std::move(exact));
        break;
      }
      consider(std::move(next));
    }
    if (!best) break;
    small = std::move(*best);
  }
  return small;
}

}  // namespace

std::optional<SmallInstance> small_instance_for(EmulatedInstances& instances, const Target& target,
                                                const Sketch& sketch, const std::string& config) {
  const std::vector<Target> chips = chips_for(target, config);
  for (const Workload& w : instances.all()) {
    if (auto small = applied(w, chips, sketch, config)) {
      return longer(std::move(*small), instances.workload(), chips, sketch, config);
    }
  }
  return std::nullopt;
}

std::string emulated_instance(const Workload& workload, const Target& target, const Sketch& sketch,
                              const std::string& config) {
  EmulatedInstances instances(workload);
  const auto small = small_instance_for(instances, target, sketch, config);
  return small ? spec_to_inline(parse_spec(small->workload.canonical)) : "";
}

EmulatedCheck check_emulated(EmulatedInstances& instances, const Target& target,
                             const Sketch& sketch, const std::string& config) {
  const auto small = small_instance_for(instances, target, sketch, config);
  return small ? check_instance(*small) : EmulatedCheck{};
}

EmulatedCheck check_emulated(const Workload& workload, const Target& target, const Sketch& sketch,
                             const std::string& config) {
  EmulatedInstances instances(workload);
  return check_emulated(instances, target, sketch, config);
}

}  // namespace tilewright
