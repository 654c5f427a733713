#include "tests/codegen/fuzz_lowering.h"

#include <fmt/core.h>

#include "codegen/lowering.h"

namespace tilewright::test {
namespace {

Module lower_module(const Module& scheduled, const Target& target) {
  Module module{lower_for_cpu(scheduled.main, target), {}};
  for (const Program& pack : scheduled.packs) module.packs.push_back(lower_for_cpu(pack, target));
  return module;
}

std::string check_module(const Program& before, const Module& module, const RandomSpec& spec) {
  NdArrays want = inputs_of(before, spec.dims), got = want;
  for (auto& [name, array] : got) array.shape = {static_cast<int64_t>(array.data.size())};
  interpret(before, want, spec.dims);
  interpret(module, got, spec.dims);
  return compare_outputs(before, want, got, spec.exact);
}

}  // namespace

std::optional<std::string> check_lowering(const RandomSpec& spec, const std::vector<Step>& steps,
                                          const Target& target, int* refused) {
  Program before = unscheduled(spec);
  Schedule schedule(before);
  try {
    for (const Step& step : steps) schedule.apply({step.primitive, step.arguments, {}});
    return check_module(before, lower_module(schedule.module(), target), spec);
  } catch (const ScheduleError&) {
    return std::nullopt;
  } catch (const LoweringError&) {
    if (refused) ++*refused;
    return "";
  } catch (const std::exception& e) {
    return fmt::format("exception: {}", e.what());
  }
}

Target lowering_target(uint64_t seed) {
  static const std::vector<std::string> kNames = {"avx512", "avx2", "generic"};
  return Target::parse(kNames[seed % kNames.size()]);
}

LoweringCase fuzz_lowering(uint64_t seed) {
  LoweringCase c{lowering_target(seed), {}, 0};
  c.schedule = fuzz_schedule(seed, [&](const RandomSpec& spec, const std::vector<Step>& steps) {
    return check_lowering(spec, steps, c.target, &c.refused);
  });
  return c;
}

std::string describe(const LoweringCase& c) {
  return fmt::format("for {}, {}", c.target.name, describe(c.schedule));
}

}  // namespace tilewright::test
