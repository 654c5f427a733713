// The property that holds schedules together: a random legal schedule of a random operator means
// what the operator means. Every case follows from its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/interpreter.h"
#include "schedule/schedule.h"

namespace tilewright::testing {

// Draws whose sequence is the same everywhere.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  // Uniform enough in [0, n).
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t first, int64_t last) { return first + below(last - first + 1); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
  }

 private:
  std::mt19937_64 random_;
};

// A small operator, as spec text, and values for its dynamic dimensions.
struct RandomSpec {
  std::string text;
  std::map<std::string, int64_t> dims;
  bool exact = true;  // small integers in give the same bits out in any order of summation
};
RandomSpec random_spec(Draw& draw);

// Tries one random rewrite, or a few that belong together, each through `attempt`, which tells
// whether it was accepted.
using Attempt = std::function<bool(const Step&)>;
void random_rewrite(const Schedule& schedule, Draw& draw, const Attempt& attempt);

// Whether the innermost bodies of the module run `most` times at most. Small sizes that are cut into
// many parts leave tiles that are nearly all padding: larger programs take their time and test
// nothing else.
bool runs_at_most(const Schedule& schedule, int64_t most);

// How many cases all shards of a test run together: TILEWRIGHT_FUZZ_CASES, or what the test wants.
uint64_t total_cases(uint64_t wanted);
// The seed of a test's first case: TILEWRIGHT_FUZZ_SEED, or 1.
uint64_t first_seed();

struct FuzzCase {
  uint64_t seed = 0;
  RandomSpec spec;
  std::vector<Step> steps;  // the accepted ones, and last the one that failed, if one did
  int refused = 0;
  std::string failure;  // empty when all is well
};

// Why these steps on that spec are wrong: empty when they are right, nothing when one is refused.
using Check =
    std::function<std::optional<std::string>(const RandomSpec&, const std::vector<Step>&)>;
// Wrong are a fault other than a refusal, an illegal program, a program whose text does not read
// back, and another meaning.
std::optional<std::string> check_steps(const RandomSpec& spec, const std::vector<Step>& steps);
// The case of that seed. A failing one comes shrunk: no step can be left out.
FuzzCase fuzz_schedule(uint64_t seed, const Check& check = check_steps);

// For other checks: the program before all steps, small integers for its inputs, and in what the
// outputs differ from those that are wanted (empty: in nothing).
Program unscheduled(const RandomSpec& spec);
NdArrays inputs_of(const Program& program, const std::map<std::string, int64_t>& dims);
std::string compare_outputs(const Program& before, const NdArrays& want, const NdArrays& got,
                            bool exact);
// Spec, seed, trace and failure.
std::string describe(const FuzzCase& c);

}  // namespace tilewright::testing
