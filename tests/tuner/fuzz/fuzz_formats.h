// The invariant of formats: a random operator with a weight in a random form computes the
// operator's result under any schedule and packing. Every case follows from its seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/target.h"
#include "tests/schedule/fuzz/fuzz_schedule.h"

namespace tilewright::test {

// A small contraction with a `w` of random keys and sizes, as spec text.
std::string random_format_spec(Draw& draw);

// Tries one random rewrite of weights, or a few that belong together.
void random_format_rewrite(const Schedule& schedule, const Workload& workload, Draw& draw,
                           const Attempt& attempt);

struct FormatCase {
  uint64_t seed = 0;
  std::string spec;
  Target target;
  std::string config;       // choices for the tuner's sketch; empty if it was not run
  std::vector<Step> steps;  // accepted steps after it, and last the failing one, if any
  int refused = 0;          // number of refused rewrites and sketches
  std::string failure;      // empty on success
};

// Why these choices and steps are wrong: empty if they are right, nothing if one is refused. Wrong
// are errors other than refusals, illegal programs, and results outside the oracle's bounds. The
// main program runs on the weights laid out by the pack programs, as scheduled and as lowered for
// the target.
std::optional<std::string> check_format(const FormatCase& c);

// The case of that seed. A failing case is shrunk: no step can be left out, and no choice of the
// sketch replaced by the first option.
FormatCase fuzz_format(uint64_t seed);

// Spec, seed, target, choices, trace and failure.
std::string describe(const FormatCase& c);

}  // namespace tilewright::test
