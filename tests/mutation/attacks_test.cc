// Malicious compilers, tested from outside: nothing that they produce is stored as valid.
#include <gtest/gtest.h>

#include "schedule/trial.h"
#include "tests/cli/support.h"

namespace tilewright::mutation {
namespace {

// 75,000 elements.
constexpr const char* kSpec = "matmul:m=250,n=300,k=64";
constexpr const char* kFacts =
    "arguments=3,output=2,bytes=300000,row=1200,input=0,input_bytes=64000";

class Attack : public cli::Cli {
 protected:
  // Runs `tune` with a compiler that makes fault `number` of the kind's `of` faults.
  cli::Ran tune(const std::string& kind, uint64_t number, uint64_t of) {
    uint64_t seed = 0;
    while (Rng(seed).below(of) != number) ++seed;
    return tune_with("kind:" + kind + ":" + std::to_string(seed) + ":" + kFacts);
  }
  cli::Ran tune_with(const std::string& how) {
    const std::string compiler =
        "TILEWRIGHT_CACHE=off TILEWRIGHT_CC='" TILEWRIGHT_BINARY_DIR "/mutating_cc " + how + " cc'";
    return run(std::string("tune ") + kSpec + " --trials 3 --json --db kernels.db", compiler);
  }
  cli::Ran replay() { return run(std::string("replay ") + kSpec + " --db kernels.db --require"); }
  void expect_refused(const cli::Ran& tuned) {
    EXPECT_EQ(tuned.code, 3) << tuned.out << tuned.err;
    const cli::Json result = tuned.json()["results"][0];
    EXPECT_EQ(result["valid"], 0) << tuned.out;
    EXPECT_EQ(result["trials"], 3) << tuned.out;
    EXPECT_EQ(replay().code, 7) << "there is a kernel to replay";
  }
};

TEST_F(Attack, AnHonestCompilerIsTaken) {
  cli::Ran tuned = tune_with("none");
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(tuned.json()["results"][0]["valid"], 3) << tuned.out;
  EXPECT_EQ(replay().code, 0);
}

TEST_F(Attack, OneWrongElementOf75000) { expect_refused(tune("one_wrong_element", 3, 9)); }

TEST_F(Attack, ATileOfZeros) { expect_refused(tune("tile_of_zeros", 4, 9)); }

TEST_F(Attack, StopsComputingAfterFourCalls) { expect_refused(tune("stops_computing", 2, 5)); }

TEST_F(Attack, WritesFourKibibytesPastItsResult) {
  expect_refused(tune("writes_out_of_bounds", 1, 9));
}

TEST_F(Attack, ReadsPastItsInput) { expect_refused(tune("reads_out_of_bounds", 1, 5)); }

// The compiler caches the result of the first call and returns it for equal pointers.
TEST_F(Attack, KeepsItsFirstResult) { expect_refused(tune("result_cached", 0, 2)); }

}  // namespace
}  // namespace tilewright::mutation
