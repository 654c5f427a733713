#include "tuner/emulated_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "ir/simplify.h"
#include "runtime/operands.h"
#include "runtime/reference.h"
#include "runtime/weight_packing.h"
#include "schedule/error.h"

namespace tilewright {
namespace {

constexpr int kComparedElements = 400;
constexpr uint64_t kThreadOrder = 1;
constexpr int64_t kLimits[] = {256, 128, 64, 32, 16, 8};
constexpr int64_t kLongLimits[] = {1024, 2048, 4096};
// Floating-point operations and elements that the emulator gets through in seconds.
constexpr double kMostFlops = 1 << 27, kMostElements = 1 << 21;

int64_t value_of(const Expr& e, const CudaSource& source, const std::vector<int64_t>& dims) {
  Analyzer known;
  for (size_t d = 0; d < dims.size(); ++d) {
    known.bind(source.dims[d].var, Interval::point(dims[d]));
  }
  return as_int(known.simplify(e)).value();
}

EmulatedLaunch emulated(const CudaLaunch& l, const CudaSource& source,
                        const std::vector<int64_t>& dims) {
  EmulatedLaunch launch;
  launch.entry = l.entry;
  for (size_t x = 0; x < 3; ++x) {
    launch.grid[x] = static_cast<int>(value_of(l.grid[x], source, dims));
  }
  launch.block = l.block;
  launch.shared_bytes = l.shared_bytes;
  for (int b : l.buffers) launch.arguments.emplace_back(EmulatedLaunch::Buffer{b});
  for (int64_t value : dims) launch.arguments.emplace_back(value);
  return launch;
}

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
  std::vector<int64_t> values = dim_values(w, dims);
  OperandSet operands(operands_of(w, dims), seed);
  std::vector<EmulatedBuffer> buffers;
  std::map<std::string, Workspace> packed = pack_weights(source.packing, operands);
  for (const KernelParam& p : source.params) {
    if (auto it = packed.find(p.name); it != packed.end()) {
      buffers.push_back({p.name, it->second.data(), it->second.bytes(), true});
      continue;
    }
    HostArray* array = operands.find(p.name);
    if (array == nullptr) return {"its parameter '" + p.name + "' is no operand", {}};
    buffers.push_back({p.name, array->data(), array->bytes(), p.role != ParamRole::Output});
  }
  std::vector<std::vector<char>> scratch;
  scratch.reserve(source.scratch.size());
  for (const CudaScratch& s : source.scratch) {
    int64_t bytes = bytes_for(s.elem, value_of(s.elements, source, values));
    scratch.emplace_back(static_cast<size_t>(bytes));
    buffers.push_back({s.name, scratch.back().data(), bytes, false});
  }
  std::vector<EmulatedLaunch> launches;
  for (const CudaLaunch& l : source.launches) launches.push_back(emulated(l, source, values));
  EmulatorOptions options;
  options.seed = kThreadOrder;
  EmulatorResult result = emulate(source.text, launches, buffers, options);
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

std::optional<Workload> shrunk(const Workload& w, int64_t limit, const LongSize& longer) {
  Spec spec = parse_spec(w.canonical);
  for (auto& [key, value] : spec.params) {
    auto* size = std::get_if<DimSize>(&value);
    if (size) *size = cut(*size, key == longer.name ? longer.limit : limit);
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
// groups of tiles and parts of sums take.
std::vector<Workload> instances_of(const Workload& workload) {
  std::vector<Workload> instances;
  auto add = [&](const std::optional<Workload>& w) {
    if (w && w->flops <= kMostFlops && elements_of(*w) <= kMostElements) instances.push_back(*w);
  };
  for (int64_t limit : kLimits) add(shrunk(workload, limit));
  for (const auto& [key, value] : parse_spec(workload.canonical).params) {
    auto* size = std::get_if<DimSize>(&value);
    for (int64_t longer : kLongLimits) {
      if (!size || size->max < longer) continue;
      for (int64_t limit : {256, 128, 64}) add(shrunk(workload, limit, {key, longer}));
    }
  }
  return instances;
}

}  // namespace

EmulatedCheck check_emulated(const Workload& workload, const Target& target, const Sketch& sketch,
                             const std::string& config) {
  for (const Workload& w : instances_of(workload)) {
    try {
      Trial trial = Trial::replay(config);
      Schedule schedule = apply_sketch(sketch, {w, target, 1}, trial);
      CudaSource source = generate_cuda(schedule.module(), target);
      std::string instance = spec_to_inline(parse_spec(w.canonical));
      return {instance, run_emulated(w, source, largest_sizes(w), 1)};
    } catch (const ScheduleError& e) {  // another size asks other questions
      spdlog::debug("{}: {}", spec_to_inline(parse_spec(w.canonical)), e.what());
    } catch (const LoweringError& e) {
      spdlog::debug("{}: {}", spec_to_inline(parse_spec(w.canonical)), e.what());
    }
  }
  return {};
}

}  // namespace tilewright
