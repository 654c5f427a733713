// Kernels for ranges of sizes, at sizes that the caller gives.
#include <gmock/gmock.h>

#include "runtime/tensor/npy.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kRange = " 'matmul:m=2..24,n=16,k=8' ";

class SizesOption : public Cli {
 protected:
  void tune() {
    ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1") + kRange).code, 0);
  }

  void write(const std::string& file, const std::vector<int64_t>& shape) {
    HostArray array(file, ElemType::f32, shape);
    for (int64_t i = 0; i < array.count(); ++i) array.set(i, static_cast<double>(i % 7 - 3));
    write_npy(dir_ / file, array);
  }
};

TEST_F(SizesOption, ReplayAndBenchRunAtTheSizeGiven) {
  tune();
  Json largest = run(std::string("replay --json --threads 1") + kRange).json()["results"][0];
  EXPECT_EQ(largest["dims"]["m"], 24);
  Json small =
      run(std::string("replay --json --threads 1 --dim m=5") + kRange).json()["results"][0];
  EXPECT_EQ(small["dims"]["m"], 5);
  EXPECT_EQ(small["checked"], true);
  EXPECT_EQ(small["spec"], largest["spec"]) << "what the database knows it by";
  Ran timed = run(std::string("bench --json --rounds 1 --threads 1 --dim m=5") + kRange);
  ASSERT_EQ(timed.code, 0) << timed.err;
  Json row = timed.json()["results"][0];
  EXPECT_EQ(row["dims"]["m"], 5);
  EXPECT_NEAR(row["gflops"].get<double>() * row["seconds"].get<double>(), 2e-9 * 5 * 16 * 8, 1e-15);
}

TEST_F(SizesOption, RunTakesArraysOfTheSizeGiven) {
  write("a.npy", {5, 8});
  write("b.npy", {8, 16});
  std::string files = " --in A=a.npy --in B=b.npy --out C=c.npy";
  Ran ran = run(std::string("run --default --threads 1 --dim m=5") + kRange + files);
  ASSERT_EQ(ran.code, 0) << ran.err;
  NpyArray a = read_npy(dir_ / "a.npy"), b = read_npy(dir_ / "b.npy"), c = read_npy(dir_ / "c.npy");
  ASSERT_EQ(c.shape, (std::vector<int64_t>{5, 16}));
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 8; ++k) sum += a.get(i * 8 + k) * b.get(k * 16 + j);
      EXPECT_EQ(c.get(i * 16 + j), sum) << i << ", " << j;
    }
  }
}

TEST_F(SizesOption, RefusesWhatIsNoSizeOfTheWorkload) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"m=25", "--dim m=25: 'm' goes from 2 to 24"},
      {"m=1", "--dim m=1: 'm' goes from 2 to 24"},
      {"n=16", "--dim n=16: 'n' is no dynamic dimension; there are: m (2 to 24)"},
      {"m", "--dim m: expected NAME=SIZE, as in m=16"},
      {"m=5x", "--dim m=5x: expected NAME=SIZE, as in m=16"},
      {"m=", "--dim m=: expected NAME=SIZE, as in m=16"},
      {"=5", "--dim =5: expected NAME=SIZE, as in m=16"},
  };
  for (const auto& [dim, message] : mistakes) {
    for (const char* command : {"replay", "bench", "run --default --out C=c.npy"}) {
      Ran ran = run(std::string(command) + " --dim " + dim + kRange);
      EXPECT_EQ(ran.code, 2) << command << " " << dim;
      EXPECT_THAT(ran.err, HasSubstr(message)) << command << " " << dim;
    }
  }
}

}  // namespace
}  // namespace tilewright::cli
