// The property that holds formats together: a random operator with a weight in a random form, however
// it is scheduled and packed, computes what the operator computes. Every case follows from its seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "tests/schedule/fuzz_schedule.h"

namespace tilewright::testing {

// A small contraction with a `w` of random keys and sizes, as spec text.
std::string random_format_spec(Draw& draw);

// Tries one random rewrite, or a few that belong together, of those that are about weights.
void random_format_rewrite(const Schedule& schedule, const Workload& workload, Draw& draw,
                           const Attempt& attempt);

struct FormatCase {
  uint64_t seed = 0;
  std::string spec;
  Target target;
  std::string config;       // answers to the tuner's sketch; empty where it was not run
  std::vector<Step> steps;  // the accepted ones that follow, and last the one that failed, if any
  int refused = 0;          // rewrites, and the sketch
  std::string failure;      // empty when all is well
};

// Why these answers and then these steps are wrong: empty when they are right, nothing when one is
// refused. Wrong are a fault other than a refusal, an illegal program, and results of the main
// program on what the pack programs make of the weights, as scheduled and as lowered for the
// target, that the oracle does not allow.
std::optional<std::string> check_format(const FormatCase& c);

// The case of that seed. A failing one comes shrunk: no step can be left out, and no answer of the
// sketch replaced by the first one.
FormatCase fuzz_format(uint64_t seed);

// Spec, seed, target, answers, trace and failure.
std::string describe(const FormatCase& c);

}  // namespace tilewright::testing
