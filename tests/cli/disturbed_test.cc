// Beside a busy neighbour times are called disturbed, and no ratio is told.
#include <gmock/gmock.h>

#include "runtime/machine/cpus.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kDisturbedSpec = "matmul:m=64,n=64,k=64";

class Disturbed : public Cli {
 protected:
  // tune-cli on a processor where a busy loop runs as well.
  Ran beside_a_neighbour(const std::string& arguments) {
    const std::string on_it = "taskset -c " + std::to_string(available_cpus().back()) + " ";
    return shell(on_it + "sh -c 'while :; do :; done' & neighbour=$!; " + on_it +
                 TILEWRIGHT_BINARY_DIR "/tune-cli " + arguments +
                 "; code=$?; kill $neighbour; (exit $code)");
  }
};

TEST_F(Disturbed, ReplayAndBenchSaySoInTextAndJson) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 4 --threads 1 --seed 1 ") + kDisturbedSpec).code,
            0);
  const std::string spec = std::string(" --threads 1 ") + kDisturbedSpec;
  const Ran replayed = beside_a_neighbour("replay --json" + spec);
  ASSERT_EQ(replayed.code, 0) << replayed.err;
  const Json replay = replayed.json()["results"][0];
  EXPECT_TRUE(replay["disturbed"].get<bool>());
  EXPECT_THAT(replay["disturbance"].get<std::string>(), HasSubstr("other work had "));
  EXPECT_GT(replay["wall_seconds"].get<double>(), 0);
  EXPECT_THAT(beside_a_neighbour("replay" + spec).out, HasSubstr("disturbed: other work had "));

  const Ran benched = beside_a_neighbour("bench --rounds 1 --json" + spec);
  ASSERT_EQ(benched.code, 0) << benched.err;
  const Json bench = benched.json()["results"][0];
  EXPECT_TRUE(bench["disturbed"].get<bool>());
  EXPECT_TRUE(bench["ratio"].empty());
  EXPECT_THAT(beside_a_neighbour("bench --rounds 1" + spec).out, HasSubstr("disturbed"));
}

}  // namespace
}  // namespace tilewright::cli
