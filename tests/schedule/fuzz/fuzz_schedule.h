// The main property of schedules: a random legal schedule of a random operator has the operator's
// meaning. The seed determines each case.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ir/interpreter/interpreter.h"
#include "schedule/schedule.h"

namespace tilewright::test {

// Random draws with the same sequence on every machine.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  // Approximately uniform in [0, n).
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

// A small operator as spec text, with values for its dynamic dimensions.
struct RandomSpec {
  std::string text;
  std::map<std::string, int64_t> dims;
  bool exact = true;  // small integer inputs give the same bits in any order of summation
};
RandomSpec random_spec(Draw& draw);

// Tries one random rewrite, or a few related ones. Each goes through `attempt`, which returns
// whether it was accepted.
using Attempt = std::function<bool(const Step&)>;
void random_rewrite(const Schedule& schedule, Draw& draw, const Attempt& attempt);

// True when the module's innermost bodies run at most `most` times. Small sizes cut into many parts
// leave tiles that are mostly padding. Larger programs take long and test nothing more.
bool runs_at_most(const Schedule& schedule, int64_t most);

// The number of cases that all shards of a test run together: TILEWRIGHT_FUZZ_CASES, or `wanted`.
uint64_t total_cases(uint64_t wanted);
// The seed of a test's first case: TILEWRIGHT_FUZZ_SEED, or 1.
uint64_t first_seed();

struct FuzzCase {
  uint64_t seed = 0;
  RandomSpec spec;
  std::vector<Step> steps;  // the accepted steps, followed by the one that failed, if any
  int refused = 0;
  std::string failure;  // empty when the case passes
};

// The reason why these steps on that spec are wrong: empty when they are right, nothing when one is
// refused.
using Check =
    std::function<std::optional<std::string>(const RandomSpec&, const std::vector<Step>&)>;
// Reports a fault other than a refusal, an illegal program, a program whose text does not read
// back, and a change of meaning.
std::optional<std::string> check_steps(const RandomSpec& spec, const std::vector<Step>& steps);
// The case of that seed. A failing case is shrunk: no step can be left out.
FuzzCase fuzz_schedule(uint64_t seed, const Check& check = check_steps);

// For other checks: the program before all steps, small integer inputs for it, and the differences
// between two outputs (empty: none).
Program unscheduled(const RandomSpec& spec);
NdArrays inputs_of(const Program& program, const std::map<std::string, int64_t>& dims);
std::string compare_outputs(const Program& before, const NdArrays& want, const NdArrays& got,
                            bool exact);
// Spec, seed, trace and failure.
std::string describe(const FuzzCase& c);

}  // namespace tilewright::test
