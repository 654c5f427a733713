// The property that lowering must keep: a random schedule of a random operator, lowered for a
// processor, has the meaning of the operator. Every case follows from its seed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/target.h"
#include "tests/schedule/fuzz/fuzz_schedule.h"

namespace tilewright::test {

// The reason why the lowered module is wrong. Empty when it is right or when lowering refuses it;
// nothing when a step is refused. Adds the refusals of lowering to `*refused` unless that is null.
std::optional<std::string> check_lowering(const RandomSpec& spec, const std::vector<Step>& steps,
                                          const Target& target, int* refused = nullptr);

// The target of a seed's case: each of three in turn.
Target lowering_target(uint64_t seed);

struct LoweringCase {
  Target target;
  FuzzCase schedule;  // its failure, if any, is that of the lowered module
  int refused = 0;    // modules that lowering refused
};

// The case of that seed. A failing case is shrunk: no step can be left out.
LoweringCase fuzz_lowering(uint64_t seed);

// Target, spec, seed, trace and failure.
std::string describe(const LoweringCase& c);

}  // namespace tilewright::test
