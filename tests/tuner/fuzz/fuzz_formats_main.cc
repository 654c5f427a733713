// Runs the format fuzzer for any number of cases: fuzz_formats [COUNT [FIRST_SEED]]. Prints every
// failing case, shrunk, and exits with 1 if there was one.
#include <fmt/core.h>

#include <cstdlib>

#include "tests/tuner/fuzz/fuzz_formats.h"

int main(int argc, char** argv) {
  uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3000;
  uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  uint64_t failures = 0, sketched = 0, steps = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    auto c = tilewright::test::fuzz_format(seed);
    sketched += c.config.empty() ? 0 : 1;
    steps += c.steps.size();
    refused += static_cast<uint64_t>(c.refused);
    if (c.failure.empty()) continue;
    ++failures;
    fmt::print("{}\n\n", tilewright::test::describe(c));
    std::fflush(stdout);
  }
  fmt::print("{} cases, {} by the sketch, {} steps, {} refusals, {} failures\n", count, sketched,
             steps, refused, failures);
  return failures == 0 ? 0 : 1;
}
