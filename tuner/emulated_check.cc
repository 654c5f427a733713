#include "tuner/emulated_check.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/cuda_lowering.h"
#include "ir/ops/spec.h"
#include "ir/visitor.h"
#include "runtime/emulator/emulate_program.h"
#include "runtime/error.h"
#include "runtime/operands.h"
#include "runtime/reference.h"
#include "runtime/same_rows.h"
#include "schedule/error.h"

namespace tilewright {
namespace {

constexpr int kComparedElements = 400;
constexpr uint64_t kThreadOrder = 1, kOperandSeed = 1;
constexpr int64_t kLimits[] = {256, 128, 64, 32, 16, 8};
constexpr int64_t kLongLimits[] = {1024, 2048, 4096};
constexpr int64_t kWide = 256;  // columns of the widest tiles
// Floating-point operations and elements that the emulator gets through in seconds.
constexpr double kMostFlops = 1 << 27, kMostElements = 1 << 21;

int64_t cut(int64_t size, int64_t limit) { return size < 2 * limit ? size : limit + size % limit; }

DimSize cut(DimSize size, int64_t limit) {
  int64_t most = cut(size.max, limit);
  return {std::min(size.min, most), most};
}

double elements_of(const Workload& w) {
  double elements = 0;
  for (const OperandInfo& o : operands_of(w, largest_sizes(w))) {
    double count = 1;
    for (int64_t extent : o.shape) count *= static_cast<double>(extent);
    elements += count;
  }
  return elements;
}

}  // namespace

EmulatedRun run_emulated(const Workload& w, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed) {
  OperandSet operands(operands_of(w, dims), seed);
  return run_emulated(w, source, dims, seed, operands);
}

EmulatedRun run_emulated(const Workload& w, const CudaSource& source,
                         const std::map<std::string, int64_t>& dims, uint64_t seed,
                         OperandSet& operands) {
  EmulatorOptions options;
  options.seed = kThreadOrder;
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
  Oracle oracle(w, seeded_readers(operands.infos(), seed), dims);
  Reference reference = make_reference(operands.output().shape(), kComparedElements, seed,
                                       [&](int64_t i) { return oracle.at(i); });
  run.problem = compare(operands.output(), reference).message;
  return run;
}

std::optional<Workload> shrunk(const Workload& w, int64_t limit,
                               const std::map<std::string, int64_t>& longer) {
  Spec spec = parse_spec(w.canonical);
  for (auto& [key, value] : spec.params) {
    auto* size = std::get_if<DimSize>(&value);
    auto own = longer.find(key);
    if (size) *size = cut(*size, own == longer.end() ? limit : own->second);
    if (auto* sizes = std::get_if<std::vector<DimSize>>(&value)) {
      for (DimSize& size : *sizes) size = cut(size, limit);
    }
  }
  try {
    return parse_workload(canonical_text(spec));  // checked anew
  } catch (const Error& e) {
    spdlog::debug("with sizes below {}: {}", 2 * limit, e.what());
    return std::nullopt;
  }
}

namespace {

// Instances of a workload, the likeliest first: all sizes short, then one of them longer, which
// groups of tiles and parts of sums take, and beside it another one that a wide tile fills.
std::vector<Workload> instances_of(const Workload& workload) {
  std::vector<Workload> instances;
  auto add = [&](int64_t limit, const std::map<std::string, int64_t>& longer = {}) {
    auto w = shrunk(workload, limit, longer);
    if (w && w->flops <= kMostFlops && elements_of(*w) <= kMostElements) instances.push_back(*w);
  };
  for (int64_t limit : kLimits) add(limit);
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const auto& [key, value] : parse_spec(workload.canonical).params) {
    if (auto* size = std::get_if<DimSize>(&value)) sizes.emplace_back(key, size->max);
  }
  auto for_longer = [&](const auto& fn) {
    for (const auto& [key, most] : sizes) {
      for (int64_t longer : kLongLimits) {
        if (most >= longer) fn(key, longer);
      }
    }
  };
  for_longer([&](const std::string& key, int64_t longer) {
    for (int64_t limit : {256, 128, 64}) add(limit, {{key, longer}});
  });
  for_longer([&](const std::string& key, int64_t longer) {
    for (const auto& [other, most] : sizes) {
      if (other == key || most < kWide) continue;
      for (int64_t wide : {kWide, 2 * kWide}) {  // two of them are a cluster
        for (int64_t limit : {128, 64}) add(limit, {{key, longer}, {other, wide}});
      }
    }
  });
  return instances;
}

// Chips on which an instance is small enough and large enough for the config: the target, or one of
// few multiprocessors, of which each block then has several tiles where the grid is made for the chip.
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

// Whether blocks share the terms of tiles, and which, by how many tiles there are.
bool shares_terms(const Program& program) {
  bool shares = false;
  for_each_stmt(program.body, [&](const Stmt& s) {
    const auto* loop = s.as<ForNode>();
    if (loop == nullptr) return;
    for (const auto& [name, value] : loop->annotations) shares |= name == kStreamedKey;
  });
  return shares;
}

EmulatedCheck check_instance(const Workload& w, const Program& program, const CudaSource& source) {
  EmulatedCheck check{spec_to_inline(parse_spec(w.canonical)), {}};
  const auto largest = largest_sizes(w);
  OperandSet operands(operands_of(w, largest), kOperandSeed);
  check.run = run_emulated(w, source, largest, kOperandSeed, operands);
  bool same_rows = !w.dims.empty() && !shares_terms(program);
  for (const auto& dims : check_points(w)) {
    if (!check.run.problem.empty()) return check;
    OperandSet fewer(operands_of(w, dims), operands);
    const EmulatedRun run = run_emulated(w, source, dims, kOperandSeed, fewer);
    if (!run.problem.empty()) {
      check.run.problem = run.problem + " at";
      for (const auto& [name, size] : dims)
        check.run.problem += fmt::format(" {} = {}", name, size);
    }
    same_rows = same_rows && begins_alike(fewer, operands);
  }
  if (same_rows) check.rows = rows_identity(operands);
  return check;
}

}  // namespace

EmulatedCheck check_emulated(const Workload& workload, const Target& target, const Sketch& sketch,
                             const std::string& config) {
  const std::vector<Target> chips = chips_for(target, config);
  for (const Workload& w : instances_of(workload)) {
    for (const Target& chip : chips) {
      try {
        Trial trial = Trial::replay(config);
        Schedule schedule = apply_sketch(sketch, {w, chip, 1}, trial);
        return check_instance(w, schedule.module().main, generate_cuda(schedule.module(), chip));
      } catch (const ScheduleError& e) {  // another size asks other questions
        spdlog::debug("{}: {}", spec_to_inline(parse_spec(w.canonical)), e.what());
      } catch (const LoweringError& e) {
        spdlog::debug("{}: {}", spec_to_inline(parse_spec(w.canonical)), e.what());
      }
    }
  }
  return {};
}

}  // namespace tilewright
