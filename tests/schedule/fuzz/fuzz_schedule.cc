#include "tests/schedule/fuzz/fuzz_schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/core.h>

#include "ir/arith/simplify.h"
#include "ir/compare.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "ir/visitor.h"

namespace tilewright::test {
namespace {

constexpr int kMaxAttempts = 16;
constexpr int kMaxSteps = 14;
constexpr int64_t kMostIterations = 50'000;

// Small integers, so that float sums are exact.
NdArray input_array(const Buffer& buffer, const std::map<std::string, int64_t>& dims,
                    uint64_t seed) {
  std::vector<int64_t> shape;
  for (const Expr& extent : buffer->shape) {
    VarMap values;
    for_each_expr(extent, [&](const Expr& e) {
      if (auto* var = e.as<VarNode>()) values[var] = Expr(dims.at(var->name));
    });
    shape.push_back(*as_int(simplify(substitute(extent, values))));
  }
  NdArray array = NdArray::zeros(buffer->elem, shape);
  Draw draw(seed);
  bool is_signed = is_float(buffer->elem) || round_to(buffer->elem, -1) == -1;
  for (double& value : array.data) {
    value = static_cast<double>(draw.between(is_signed ? -3 : 0, 3));
  }
  return array;
}

bool agrees(double want, double got, bool exact) {
  if (want == got || (std::isnan(want) && std::isnan(got))) return true;
  return !exact && std::abs(want - got) <= 1e-5 * (1 + std::abs(want));
}

int64_t iterations(const Stmt& s, Analyzer& known) {
  if (auto* loop = s.as<ForNode>()) {
    int64_t extent = std::clamp<int64_t>(known.bounds(loop->extent).max, 1, INT32_MAX);
    return std::min<int64_t>(INT32_MAX, extent * iterations(loop->body, known));
  }
  int64_t total = 0;
  if (auto* seq = s.as<SeqNode>()) {
    for (const Stmt& part : seq->stmts) total += iterations(part, known);
  }
  if (auto* block = s.as<BlockNode>()) total += iterations(block->body, known);
  return std::max<int64_t>(1, total);
}

// The violations that verify() finds in the module after a step.
std::string check_legal(const Schedule& schedule) {
  std::vector<Violation> violations = verify(schedule.program());
  for (const Program& pack : schedule.module().packs) {
    for (Violation& v : verify(pack)) violations.push_back(std::move(v));
  }
  return violations.empty() ? "" : fmt::format("illegal: {}", violations[0].message);
}

// Checks the scheduled module alone, and compares it with the original program.
std::string check_module(const RandomSpec& spec, const Program& before, const Schedule& schedule) {
  std::string text = to_string(schedule.module());
  Module read = parse_module(text);
  if (!equal(read.main, schedule.program())) return "the program's text reads back differently";
  Schedule again(before);
  for (const Step& step : Trace::from_json(schedule.trace().to_json()).steps) again.apply(step);
  if (to_string(again.module()) != text) return "the trace replays to another program";
  NdArrays want = inputs_of(before, spec.dims), got = want;
  interpret(before, want, spec.dims);
  interpret(schedule.module(), got, spec.dims);
  return compare_outputs(before, want, got, spec.exact);
}

// Removes steps, from the last to the first, as long as the case still fails.
void shrink(FuzzCase& c, const Check& check) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = c.steps.size(); i-- > 0;) {
      std::vector<Step> fewer = c.steps;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      std::optional<std::string> failure = check(c.spec, fewer);
      if (!failure || failure->empty()) continue;
      c.steps = std::move(fewer);
      c.failure = *failure;
      smaller = true;
    }
  }
}

}  // namespace

bool runs_at_most(const Schedule& schedule, int64_t most) {
  int64_t total = 0;
  auto add = [&](const Program& program) {
    Analyzer known;
    for (const DimVar& dim : program.dims) known.bind(dim.var, Interval{dim.min, dim.max});
    total += iterations(program.body, known);
  };
  add(schedule.program());
  for (const Program& pack : schedule.module().packs) add(pack);
  return total <= most;
}

uint64_t total_cases(uint64_t wanted) {
  const char* text = std::getenv("TILEWRIGHT_FUZZ_CASES");
  return text ? std::strtoull(text, nullptr, 10) : wanted;
}

uint64_t first_seed() {
  const char* text = std::getenv("TILEWRIGHT_FUZZ_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

Program unscheduled(const RandomSpec& spec) { return lower(parse_workload(spec.text)); }

NdArrays inputs_of(const Program& program, const std::map<std::string, int64_t>& dims) {
  NdArrays arrays;
  uint64_t seed = 7;
  for (const Param& param : program.params) {
    if (param.role == ParamRole::Output) continue;
    arrays[param.buffer->name] = input_array(param.buffer, dims, seed++);
  }
  return arrays;
}

std::string compare_outputs(const Program& before, const NdArrays& want, const NdArrays& got,
                            bool exact) {
  for (const Param& param : before.params) {
    if (param.role != ParamRole::Output) continue;
    const std::string& name = param.buffer->name;
    const std::vector<double>&a = want.at(name).data, &b = got.at(name).data;
    for (size_t i = 0; i < a.size(); ++i) {
      if (agrees(a[i], b[i], exact)) continue;
      return fmt::format("{}[flat {}] is {}, not {}", name, i, b[i], a[i]);
    }
  }
  return "";
}

std::optional<std::string> check_steps(const RandomSpec& spec, const std::vector<Step>& steps) {
  Program before = unscheduled(spec);
  Schedule schedule(before);
  try {
    for (const Step& step : steps) {
      schedule.apply({step.primitive, step.arguments, {}});
      if (std::string problem = check_legal(schedule); !problem.empty()) return problem;
    }
    return check_module(spec, before, schedule);
  } catch (const ScheduleError&) {
    return std::nullopt;
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
}

FuzzCase fuzz_schedule(uint64_t seed, const Check& check) {
  Draw draw(seed);
  FuzzCase c;
  c.seed = seed;
  c.spec = random_spec(draw);
  Schedule schedule(unscheduled(c.spec));
  auto attempt = [&](const Step& step) {
    if (c.steps.size() >= kMaxSteps || !c.failure.empty()) return false;
    Schedule before = schedule;
    try {
      schedule.apply(step);
      if (!runs_at_most(schedule, kMostIterations)) {
        schedule = std::move(before);
        ++c.refused;
        return false;
      }
    } catch (const ScheduleError& e) {
      ++c.refused;
      return false;
    } catch (const std::exception& e) {
      c.failure = fmt::format("exception: {}", e.what());
    }
    c.steps.push_back(step);
    return c.failure.empty();
  };
  int64_t attempts = draw.between(1, kMaxAttempts);
  for (int64_t i = 0; i < attempts; ++i) random_rewrite(schedule, draw, attempt);
  if (c.failure.empty()) c.failure = check(c.spec, c.steps).value_or("replay is refused");
  if (!c.failure.empty()) shrink(c, check);
  return c;
}

std::string describe(const FuzzCase& c) {
  Trace trace;
  trace.steps = c.steps;
  std::string dims;
  for (const auto& [name, value] : c.spec.dims) dims += fmt::format(" {}={}", name, value);
  std::string text =
      fmt::format("seed {}: {}{}\n{}{}\n", c.seed, c.spec.text, dims, trace.str(), c.failure);
  try {
    Schedule schedule(unscheduled(c.spec));
    for (const Step& step : c.steps) schedule.apply({step.primitive, step.arguments, {}});
    text += to_string(schedule.module());
  } catch (const std::exception&) {
    text += to_string(unscheduled(c.spec));
  }
  return text;
}

}  // namespace tilewright::test
