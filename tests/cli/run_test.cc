// tune-cli run on the caller's own files: the values, and what is refused before anything runs.
#include <gmock/gmock.h>

#include <limits>

#include "runtime/tensor/npy.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr int64_t kM = 13, kN = 21, kK = 9;
constexpr const char* kRunSpec = "'matmul:m=13,n=21,k=9,epilogue=[bias,relu]'";
constexpr const char* kInputs = "--in A=a.npy --in B=b.npy --in bias=bias.npy ";

class RunCommand : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    write("a.npy", {kM, kK}, 1);
    write("b.npy", {kK, kN}, 2);
    write("bias.npy", {kN}, 3);
  }

  // Small whole numbers, so that every order of summation gives the same.
  static double value(int64_t i, int64_t salt) {
    return static_cast<double>((i * 7 + salt * 5) % 11 - 5);
  }

  void write(const std::string& file, const std::vector<int64_t>& shape, int64_t salt,
             ElemType elem = ElemType::f32) {
    HostArray array(file, elem, shape);
    for (int64_t i = 0; i < array.count(); ++i) array.set(i, value(i, salt));
    write_npy(dir_ / file, array);
  }

  void expect_the_product(const std::string& file) {
    NpyArray c = read_npy(dir_ / file);
    ASSERT_EQ(c.shape, (std::vector<int64_t>{kM, kN}));
    for (int64_t i = 0; i < kM; ++i) {
      for (int64_t j = 0; j < kN; ++j) {
        double sum = value(j, 3);
        for (int64_t k = 0; k < kK; ++k) sum += value(i * kK + k, 1) * value(k * kN + j, 2);
        EXPECT_EQ(c.get(i * kN + j), std::max(sum, 0.0)) << i << ", " << j;
      }
    }
  }

  // Refused with code 2 and this message; nothing is written.
  void expect_refused(const std::string& arguments, const std::string& message,
                      const std::string& spec = kRunSpec) {
    Ran ran = run("run --default " + arguments + " " + spec);
    EXPECT_EQ(ran.code, 2) << arguments;
    EXPECT_THAT(ran.err, HasSubstr(message)) << arguments;
    EXPECT_FALSE(fs::exists(dir_ / "c.npy")) << arguments;
  }
};

TEST_F(RunCommand, TheDefaultComputesTheProduct) {
  Ran ran =
      run(std::string("run --json --default --threads 2 --out C=c.npy ") + kInputs + kRunSpec);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["out"], "c.npy");
  expect_the_product("c.npy");
}

TEST_F(RunCommand, TheBestComputesTheProduct) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 3 --threads 1 ") + kRunSpec).code, 0);
  Ran ran = run(std::string("run --threads 1 --out C=c.npy ") + kInputs + kRunSpec,
                "TILEWRIGHT_CC=/nonexistent/cc");
  ASSERT_EQ(ran.code, 0) << ran.err;
  expect_the_product("c.npy");
}

TEST_F(RunCommand, WithoutAKernelItExitsWithSeven) {
  ASSERT_EQ(run(std::string("tune --quiet --trials 2 --threads 1 ") + kSmall).code, 0);
  Ran ran = run(std::string("run --threads 1 --out C=c.npy ") + kInputs + kRunSpec);
  EXPECT_EQ(ran.code, 7) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("--default runs the untuned kernel"));
}

TEST_F(RunCommand, NarrowFloatsMayComeAsF32) {
  Ran ran =
      run("run --default --in A=a.npy --in B=b.npy --out C=c.npy "
          "matmul:m=13,n=21,k=9,dtype=bf16");
  ASSERT_EQ(ran.code, 0) << ran.err;
  NpyArray c = read_npy(dir_ / "c.npy");
  double sum = 0;
  for (int64_t k = 0; k < kK; ++k) sum += value(k, 1) * value(k * kN, 2);
  EXPECT_EQ(c.get(0), sum);
}

class RunLowBit : public RunCommand {
 protected:
  void write_values(const std::string& file, const std::vector<int64_t>& shape, ElemType elem,
                    const std::vector<double>& values) {
    HostArray array(file, elem, shape);
    for (int64_t i = 0; i < array.count(); ++i) array.set(i, values.at(static_cast<size_t>(i)));
    write_npy(dir_ / file, array);
  }
  // The product of a.npy, a row of four, and a weight of [4, 2].
  std::vector<double> product() {
    NpyArray c = read_npy(dir_ / "c.npy");
    return {c.get(0), c.get(1)};
  }
};

TEST_F(RunLowBit, TakesLogicalIntegersScalesAndZeroPoints) {
  write_values("a.npy", {1, 4}, ElemType::f32, {1, 2, 3, 4});
  write_values("q.npy", {4, 2}, ElemType::i64, {15, 0, 1, 2, 3, 4, 5, 6});
  write_values("s.npy", {2, 2}, ElemType::f32, {0.5, 1, 2, 4});
  write_values("z.npy", {2, 2}, ElemType::u8, {8, 1, 3, 4});
  Ran ran =
      run("run --default --in A=a.npy --in B=q.npy --in B.scale=s.npy --in B.zero=z.npy "
          "--out C=c.npy matmul:m=1,n=2,k=4,w.dtype=u4,w.group=2,w.zero=u4");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(product(), (std::vector<double>{7 * 0.5 - 2 * 7 * 0.5 + 0 + 4 * 2 * 2,
                                            -1 + 2 * 1 + 0 + 4 * 2 * 4}));
}

// An output of values that are not finite has nothing that could be compared.
TEST_F(RunLowBit, DoesNotSayCheckedWhereNothingWasCompared) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_values("a.npy", {1, 2}, ElemType::f32, {nan, nan});
  write_values("b.npy", {2, 2}, ElemType::f32, {1, 2, 3, 4});
  const std::string rest =
      "run --default --in A=a.npy --in B=b.npy --out C=c.npy matmul:m=1,n=2,k=2";
  Ran ran = run(rest);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("not checked: none of 2 elements has a finite value"), std::string::npos)
      << ran.err;
  ran = run(rest + " --json");
  EXPECT_EQ(ran.json()["checked"], false);
  EXPECT_EQ(ran.json()["compared"], 0);
}

TEST_F(RunLowBit, TakesCodes) {
  write_values("a.npy", {1, 4}, ElemType::f32, {1, 1, 1, 1});
  write_values("q.npy", {4, 2}, ElemType::i64, {15, 7, 7, 7, 0, 7, 7, 7});
  write_values("s.npy", {1, 2}, ElemType::u8, {128, 127});
  Ran ran =
      run("run --default --in A=a.npy --in B=q.npy --in B.scale=s.npy --out C=c.npy "
          "matmul:m=1,n=2,k=4,w.dtype=nf4,w.scale=e8m0");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(product(), (std::vector<double>{0, 0}));
}

TEST_F(RunLowBit, TakesLogicalIntegersForActivationsToo) {
  write_values("a.npy", {1, 4}, ElemType::i64, {-8, 7, 2, -3});
  write_values("q.npy", {4, 2}, ElemType::i64, {1, -2, -1, 1, 0, -1, 1, 0});
  const std::string files = "--in A=a.npy --in B=q.npy --out C=c.npy";
  expect_refused(files, "a.npy: element 0 is -8, which u4 cannot hold",
                 "matmul:m=1,n=2,k=4,dtype=u4,w.dtype=i2");
  Ran ran = run("run --default " + files + " matmul:m=1,n=2,k=4,dtype=i4,w.dtype=i2");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(product(), (std::vector<double>{-8 - 7 - 3, 16 + 7 - 2}));
}

TEST_F(RunLowBit, RefusesValuesThatTheTypeCannotHold) {
  write_values("a.npy", {1, 4}, ElemType::f32, {1, 1, 1, 1});
  write_values("q.npy", {4, 2}, ElemType::i64, {15, 0, 1, 2, 16, 4, 5, 6});
  write_values("s.npy", {1, 2}, ElemType::f32, {1, 1});
  const std::string files = "--in A=a.npy --in B=q.npy --in B.scale=s.npy --out C=c.npy";
  expect_refused(files, "q.npy: element 4 is 16, which u4 cannot hold",
                 "matmul:m=1,n=2,k=4,w.dtype=u4");
  expect_refused(files, "q.npy: element 4 is 16, which is no code of nf4; expected 0 to 15",
                 "matmul:m=1,n=2,k=4,w.dtype=nf4");
}

TEST_F(RunLowBit, RefusesOrPrunesAWeightThatBreaksItsPattern) {
  write_values("a.npy", {1, 4}, ElemType::f32, {1, 1, 1, 1});
  write_values("b.npy", {4, 2}, ElemType::f32, {1, 0, 2, 5, 3, 0, 0, 7});
  const std::string files = "--in A=a.npy --in B=b.npy --out C=c.npy";
  const std::string spec = "matmul:m=1,n=2,k=4,w.sparse=2:4";
  expect_refused(files,
                 "--in B: the weight breaks its pattern in column 0, rows 0 to 3 of k: rows 0, 1 "
                 "and 2 are not zero; 2:4 allows 2; --prune keeps the largest",
                 spec);
  expect_refused(files + " --prune", "--prune: the spec has no sparse weight",
                 "matmul:m=1,n=2,k=4");
  ASSERT_EQ(run("run --default --prune " + files + " " + spec).code, 0);
  EXPECT_EQ(product(), (std::vector<double>{5, 12}));
}

TEST_F(RunCommand, OperandsThatAreMissingOrUnknownAreRefused) {
  expect_refused("--in A=a.npy --in B=b.npy --out C=c.npy",
                 "operand 'bias' is missing; expected a file for each of A, B, bias");
  expect_refused(std::string(kInputs) + "--in D=a.npy --out C=c.npy",
                 "there is no operand 'D'; expected A, B, bias");
  expect_refused(std::string(kInputs) + "--in A=a.npy --out C=c.npy", "operand 'A' is given twice");
  expect_refused(std::string(kInputs), "expected one NAME=FILE.npy for C");
  expect_refused(std::string(kInputs) + "--out A=c.npy", "there is no operand 'A'; expected C");
  expect_refused("--in A --out C=c.npy",
                 "--in: expected NAME=FILE.npy or NAME=FILE:TENSOR, got 'A'");
}

TEST_F(RunCommand, FilesOfAnotherShapeOrTypeAreRefused) {
  const std::string rest = " --in B=b.npy --in bias=bias.npy --out C=c.npy";
  expect_refused("--in A=b.npy" + rest,
                 "b.npy: shape [9, 21] does not fit operand 'A', which is f32[13, 9]");
  expect_refused("--in A=a.npy --in B=b.npy --out C=c.npy",
                 "a.npy: f32 does not fit operand 'A', which is i8[13, 9]; convert it to integers",
                 "matmul:m=13,n=21,k=9,dtype=i8");
  expect_refused("--in A=none.npy" + rest, "none.npy: ");
  std::ofstream(dir_ / "text.npy") << "1 2 3";
  expect_refused("--in A=text.npy" + rest, "text.npy: ");
}

}  // namespace
}  // namespace tilewright::cli
