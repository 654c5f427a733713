// The libraries that bench compares with run where the filter holds that kernels run under.
#include <set>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

// One spec for the peers of dense products, one for those of weights of few bits.
constexpr const char* kSpecs =
    "matmul:m=64,n=64,k=64 matmul:m=4,n=64,k=256,w.dtype=i4,w.group=32,w.scale=f16";

class BenchPeers : public Cli {
 protected:
  // The names of the plugins beside tune-cli; none where scripts/deps --peers was not run.
  static std::set<std::string> built() {
    std::set<std::string> names;
    const std::string prefix = "libtilewright_peer_";
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(TILEWRIGHT_BINARY_DIR "/peers", none)) {
      const std::string stem = entry.path().stem().string();
      if (stem.starts_with(prefix)) names.insert(stem.substr(prefix.size()));
    }
    return names;
  }
};

TEST_F(BenchPeers, RunWhereKernelsAreConfined) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 1 --threads 2 ") + kSpecs).code, 0);
  const Ran ran = run(std::string("bench --json --rounds 1 --threads 2 ") + kSpecs);
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::set<std::string> timed;
  const Json document = ran.json();
  for (const Json& row : document["results"]) {
    for (const auto& [name, peer] : row["peers"].items()) {
      EXPECT_GT(peer["seconds"], 0) << name;
      timed.insert(name);
    }
  }
  EXPECT_EQ(timed, built());
}

}  // namespace
}  // namespace tilewright::cli
