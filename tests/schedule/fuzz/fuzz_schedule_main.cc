// Runs the schedule fuzzer for any number of cases: fuzz_schedule [COUNT [FIRST_SEED]]. Prints
// every failing case, shrunk. The exit code is 1 when there was one.
#include <cstdio>
#include <cstdlib>

#include <fmt/core.h>

#include "tests/schedule/fuzz/fuzz_schedule.h"

int main(int argc, char** argv) {
  uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
  uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  uint64_t failures = 0, steps = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    auto c = tilewright::test::fuzz_schedule(seed);
    steps += c.steps.size();
    refused += static_cast<uint64_t>(c.refused);
    if (c.failure.empty()) continue;
    ++failures;
    fmt::print("{}\n\n", tilewright::test::describe(c));
    std::fflush(stdout);  // keeps earlier findings when the run is cut short
  }
  fmt::print("{} cases, {} steps, {} refusals, {} failures\n", count, steps, refused, failures);
  return failures == 0 ? 0 : 1;
}
