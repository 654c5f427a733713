#include "tests/tuner/fuzz/fuzz_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "codegen/intrinsics/intrinsics.h"
#include "codegen/lowering.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/array.h"
#include "runtime/tensor/operands.h"
#include "tuner/sketch.h"

namespace tilewright::test {
namespace {

constexpr int kMaxSteps = 10;
constexpr uint64_t kDataSeed = 7;
constexpr int kThreads = 2;
// Small sizes cut into many parts are mostly padding. Programs larger than this take long and test
// nothing new.
constexpr int64_t kMostIterations = 100'000;

// Instructions are drawn, too: programs are interpreted, so the machine need not have them.
Target random_target(Draw& draw) {
  Target target = Target::parse(draw.of(std::vector<std::string>{"avx512", "avx2", "generic"}));
  std::set<std::string> known;
  for (const Intrinsic& row : intrinsics()) known.insert(row.features.begin(), row.features.end());
  for (const std::string& feature : known) {
    if (draw.chance(60)) target.extensions.insert(feature);
  }
  return target;
}

// Applies the sketch with the config's choices, then the steps.
Schedule scheduled_fuzz_formats(const FormatCase& c, const Workload& workload) {
  SketchInput input{workload, c.target, kThreads};
  Trial trial = c.config.empty() ? Trial::first() : Trial::replay(c.config);
  Schedule s = c.config.empty() ? Schedule(lower(workload))
                                : apply_sketch(cpu_sketches().front(), input, trial);
  for (const Step& step : c.steps) s.apply({step.primitive, step.arguments, {}});
  return s;
}

int64_t iterations(const Stmt& s) {
  auto* loop = s.as<ForNode>();
  if (loop) return as_int(loop->extent).value_or(1) * iterations(loop->body);
  int64_t total = 0;
  if (auto* seq = s.as<SeqNode>()) {
    for (const Stmt& part : seq->stmts) total += iterations(part);
  }
  if (auto* block = s.as<BlockNode>()) total += iterations(block->body);
  return std::max<int64_t>(1, total);
}

bool small_enough(const Schedule& s) {
  int64_t total = iterations(s.program().body);
  for (const Program& pack : s.module().packs) total += iterations(pack.body);
  return total <= kMostIterations;
}

Module lowered(const Module& module, const Target& target) {
  Module result{lower_for_cpu(module.main, target), {}};
  for (const Program& pack : module.packs) result.packs.push_back(lower_for_cpu(pack, target));
  return result;
}

// The tuner's test data for candidates, and the oracle's results. Computed once per case: the
// scheduled and the lowered program are compared with the same values.
class Truth {
 public:
  explicit Truth(const Workload& workload) {
    std::vector<OperandInfo> infos = operands_of(workload, {});
    std::map<std::string, ElementReader> readers = seeded_readers(infos, kDataSeed);
    for (const OperandInfo& info : infos) {
      auto read = readers.find(info.name);
      if (read == readers.end()) continue;
      NdArray& array = inputs_[info.name] = NdArray::zeros(info.elem, info.shape);
      for (size_t i = 0; i < array.data.size(); ++i) {
        array.data[i] = read->second(static_cast<int64_t>(i));
      }
    }
    out_ = infos.back();
    Oracle oracle(workload, readers);
    const int64_t elements = checked_count(out_.name, out_.shape);
    for (int64_t i = 0; i < elements; ++i) values_.push_back(oracle.at(i));
  }

  // The error in the module's output, if any. `flat`: its buffers have one dimension.
  std::string compare(const Module& module, bool flat) const {
    NdArrays arrays = inputs_;
    for (auto& [name, array] : arrays) {
      if (flat) array.shape = {static_cast<int64_t>(array.data.size())};
    }
    interpret(module, arrays);
    const std::vector<double>& got = arrays.at(out_.name).data;
    for (size_t i = 0; i < got.size(); ++i) {
      const Oracle::Value& want = values_.at(i);
      double bound = allowed_error(out_.elem, want);
      bool right = got[i] == want.value || std::abs(got[i] - want.value) <= bound;
      if (right || (std::isnan(got[i]) && std::isnan(want.value))) continue;
      return fmt::format("{}[flat {}] is {}, not {}, and may be {} off{}", out_.name, i, got[i],
                         want.value, bound, flat ? ", lowered" : "");
    }
    return "";
  }

 private:
  NdArrays inputs_;
  OperandInfo out_;
  std::vector<Oracle::Value> values_;
};

std::string check_legal(const Module& module) {
  std::vector<Violation> violations = verify(module.main);
  for (const Program& pack : module.packs) {
    for (Violation& v : verify(pack)) violations.push_back(std::move(v));
  }
  return violations.empty() ? "" : fmt::format("illegal: {}", violations[0].message);
}

std::string check_module(const Workload& workload, const Module& module, const Target& target) {
  if (std::string fault = check_legal(module); !fault.empty()) return fault;
  const Truth truth(workload);
  if (std::string fault = truth.compare(module, false); !fault.empty()) return fault;
  try {
    return truth.compare(lowered(module, target), true);
  } catch (const LoweringError&) {
    return "";  // lowering refused; the schedule is right
  }
}

// Leaves out steps, from the last to the first, while the case still fails.
bool shrink_steps(FormatCase& c) {
  bool smaller = false;
  for (size_t i = c.steps.size(); i-- > 0;) {
    FormatCase fewer = c;
    fewer.steps.erase(fewer.steps.begin() + static_cast<std::ptrdiff_t>(i));
    std::optional<std::string> failure = check_format(fewer);
    if (!failure || failure->empty()) continue;
    fewer.failure = *failure;
    c = std::move(fewer);
    smaller = true;
  }
  return smaller;
}

// The config with one choice changed, and choices that this makes invalid drawn again. Nothing if
// the sketch refuses it.
std::optional<std::string> config_with(const FormatCase& c, const Workload& workload,
                                       const std::string& name, const nlohmann::json& answer) {
  auto config = nlohmann::ordered_json::parse(c.config);
  config[name] = answer;
  Trial trial = Trial::mutate(config.dump(), 0, c.seed);
  try {
    apply_sketch(cpu_sketches().front(), {workload, c.target, kThreads}, trial);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return trial.config();
}

// Replaces one choice after another by its first option, while the case still fails.
void shrink_config(FormatCase& c) {
  if (c.config.empty()) return;
  Workload workload = make_workload(parse_spec(c.spec));
  Trial trial = Trial::replay(c.config);
  try {
    apply_sketch(cpu_sketches().front(), {workload, c.target, kThreads}, trial);
  } catch (const std::exception&) {
    return;
  }
  for (const Decision& d : trial.decisions()) {
    if (d.chosen == 0) continue;
    nlohmann::json first = std::visit([](auto& v) { return nlohmann::json(v); }, d.options[0]);
    std::optional<std::string> config = config_with(c, workload, d.name, first);
    if (!config) continue;
    FormatCase simpler = c;
    simpler.config = *config;
    std::optional<std::string> failure = check_format(simpler);
    if (!failure || failure->empty()) continue;
    simpler.failure = *failure;
    c = std::move(simpler);
  }
}

void shrink(FormatCase& c) {
  while (shrink_steps(c)) {
  }
  shrink_config(c);
}

// Rewrites the case's schedule at random; accepted rewrites become its steps.
void draw_steps(FormatCase& c, const Workload& workload, Draw& draw, int64_t attempts) {
  Schedule schedule = scheduled_fuzz_formats(c, workload);
  auto attempt = [&](const Step& step) {
    if (c.steps.size() >= kMaxSteps || !c.failure.empty()) return false;
    Schedule before = schedule;
    try {
      schedule.apply(step);
      if (small_enough(schedule)) {
        c.steps.push_back(step);
        return true;
      }
      schedule = before;
    } catch (const ScheduleError&) {
    } catch (const std::exception& e) {
      c.failure = fmt::format("exception: {}", e.what());
      c.steps.push_back(step);
      return false;
    }
    ++c.refused;
    return false;
  };
  for (int64_t i = 0; i < attempts && c.failure.empty(); ++i) {
    if (draw.chance(35)) {
      random_format_rewrite(schedule, workload, draw, attempt);
    } else {
      random_rewrite(schedule, draw, attempt);
    }
  }
}

// Draws random choices; none if a few draws in a row are refused.
void draw_config(FormatCase& c, const Workload& workload, Draw& draw) {
  for (int tries = 0; tries < 4; ++tries) {
    Trial trial = Trial::random(static_cast<uint64_t>(draw.below(INT64_MAX)));
    try {
      if (small_enough(
              apply_sketch(cpu_sketches().front(), {workload, c.target, kThreads}, trial))) {
        c.config = trial.config();
        return;
      }
    } catch (const ScheduleError&) {
    } catch (const std::exception& e) {
      c.config = trial.config();
      c.failure = fmt::format("exception: {}", e.what());
      return;
    }
    ++c.refused;
  }
}

}  // namespace

std::optional<std::string> check_format(const FormatCase& c) {
  Workload workload = make_workload(parse_spec(c.spec));
  try {
    return check_module(workload, scheduled_fuzz_formats(c, workload).module(), c.target);
  } catch (const ScheduleError&) {
    return std::nullopt;
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
}

FormatCase fuzz_format(uint64_t seed) {
  Draw draw(seed);
  FormatCase c;
  c.seed = seed;
  c.spec = random_format_spec(draw);
  c.target = random_target(draw);
  Workload workload = make_workload(parse_spec(c.spec));
  const bool sketched = draw.chance(60);
  if (sketched) draw_config(c, workload, draw);
  if (c.failure.empty() && (!sketched || draw.chance(25))) {
    draw_steps(c, workload, draw, draw.between(1, sketched ? 3 : 10));
  }
  if (c.failure.empty()) c.failure = check_format(c).value_or("replay is refused");
  if (!c.failure.empty()) shrink(c);
  return c;
}

std::string describe(const FormatCase& c) {
  Trace trace;
  trace.steps = c.steps;
  std::string text =
      fmt::format("seed {}: {} on {} with {}\n{}\n{}{}\n", c.seed, c.spec, c.target.name,
                  fmt::join(c.target.extensions, " "), c.config, trace.str(), c.failure);
  try {
    Workload workload = make_workload(parse_spec(c.spec));
    text += to_string(scheduled_fuzz_formats(c, workload).module());
  } catch (const std::exception&) {
    // A case that cannot be scheduled has no program; the failure says why.
  }
  return text;
}

}  // namespace tilewright::test
