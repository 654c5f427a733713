// Outputs that are too large for the oracle: samples, and sums of all elements.
#include "runtime/check/output_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "runtime/check/reference.h"
#include "runtime/tensor/operands.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeed = 3;

// A product whose whole output is taken to be too dear, and a right output of it: f32 sums in the
// order of k (of bytes i32), rounded to the output's type.
class LargeProduct {
 public:
  LargeProduct(const std::string& spec, ValueKind kind, int samples = 32)
      : workload_(parse_workload(spec)), operands_(operands_of(workload_, {}), kSeed, kind) {
    const std::vector<double> a = all_of(operands_.at("A")), b = all_of(operands_.at("B"));
    HostArray& c = operands_.output();
    const int64_t n = c.shape()[1], k = operands_.at("A").shape()[1];
    for (int64_t i = 0; i < c.count(); ++i) {
      int32_t whole = 0;
      float sum = 0;
      for (int64_t x = 0; x < k; ++x) {
        const double left = a[static_cast<size_t>(i / n * k + x)];
        const double right = b[static_cast<size_t>(x * n + i % n)];
        if (is_integer(c.elem())) {
          whole += static_cast<int32_t>(left) * static_cast<int32_t>(right);
        } else {
          sum += static_cast<float>(left) * static_cast<float>(right);
        }
      }
      c.set(i, is_integer(c.elem()) ? whole : static_cast<double>(sum));
    }
    // Between what the whole output takes and what its sums take.
    const auto oracle = oracle_on(workload_, operands_, {});
    const ReferenceLimits limits{.seconds = oracle->whole_cost().seconds * 0.9, .samples = samples};
    reference_ = reference_of(oracle, c, limits, kSeed);
  }

  HostArray& output() { return operands_.output(); }
  const Reference& reference() const { return reference_; }
  CheckResult compare() { return tilewright::compare(operands_.output(), reference_); }
  bool samples(int64_t index) const {
    return std::count(reference_.indices.begin(), reference_.indices.end(), index) != 0;
  }

 private:
  static std::vector<double> all_of(const HostArray& array) {
    std::vector<double> values(static_cast<size_t>(array.count()));
    array.read(0, values);
    return values;
  }

  Workload workload_;
  OperandSet operands_;
  Reference reference_;
};

constexpr const char* kSpecs[] = {"matmul:m=96,n=160,k=128", "matmul:m=96,n=160,k=128,dtype=bf16",
                                  "matmul:m=96,n=160,k=128,dtype=f16",
                                  "matmul:m=96,n=160,k=128,dtype=i8"};

TEST(OutputSums, RightKernelsPass) {
  for (const char* spec : kSpecs) {
    for (ValueKind kind : {ValueKind::Ordinary, ValueKind::Hard}) {
      LargeProduct product(spec, kind);
      ASSERT_TRUE(product.reference().sums) << spec;
      EXPECT_LT(product.reference().values.size(), 60u);
      const CheckResult result = product.compare();
      EXPECT_EQ(result.verdict, Verdict::Ok) << spec << " " << result.message;
      if (kind == ValueKind::Ordinary) {
        EXPECT_THAT(sums_that_are_off(product.output(), *product.reference().sums),
                    testing::IsEmpty())
            << spec;
      }
    }
  }
}

// One of 15,360, which is no sample, off by little: terms are a quarter on average, and elements 4.
TEST(OutputSums, OneWrongElementIsFound) {
  constexpr int64_t kPlace = 53 * 160 + 77;
  constexpr double kOff[] = {0.01, 1, 0.25, 1};
  for (size_t i = 0; i < std::size(kSpecs); ++i) {
    LargeProduct product(kSpecs[i], ValueKind::Ordinary);
    ASSERT_FALSE(product.samples(kPlace));
    product.output().set(kPlace, product.output().get(kPlace) + kOff[i]);
    const CheckResult result = product.compare();
    EXPECT_EQ(result.verdict, Verdict::Wrong) << kSpecs[i];
    EXPECT_EQ(result.index, kPlace) << kSpecs[i];
    EXPECT_THAT(result.message, HasSubstr("C[53, 77] is ")) << kSpecs[i];
  }
}

// Integers are off by one, and wrap: a sum that is off by 2^32 is none.
TEST(OutputSums, IntegersAreExact) {
  LargeProduct product("matmul:m=96,n=160,k=128,dtype=i8", ValueKind::Hard);
  product.output().set(500, product.output().get(500) + 1);
  EXPECT_EQ(product.compare().index, 500);
  Oracle::Sums sums{.extent = 2, .width = 2, .weights = {4, -7}, .values = {0x1p32 - 3}};
  sums.errors = {0};
  HostArray output("C", ElemType::i32, {1, 2});
  output.set(0, 1);
  output.set(1, 1);
  EXPECT_THAT(sums_that_are_off(output, sums), testing::IsEmpty());
  output.set(1, 2);
  EXPECT_THAT(sums_that_are_off(output, sums), testing::ElementsAre(0));
}

TEST(OutputSums, ATileOfZerosIsFound) {
  for (const char* spec : kSpecs) {
    LargeProduct product(spec, ValueKind::Ordinary, 1);
    for (int64_t i = 40; i < 48; ++i) {
      for (int64_t j = 64; j < 80; ++j) product.output().set(i * 160 + j, 0);
    }
    EXPECT_EQ(product.compare().verdict, Verdict::Wrong) << spec;
  }
}

TEST(OutputSums, WhatIsNoNumberIsFound) {
  LargeProduct product("matmul:m=96,n=160,k=128,dtype=f16", ValueKind::Ordinary);
  product.output().set(7000, std::nan(""));
  EXPECT_EQ(product.compare().index, 7000);
}

// Of an axis that is not the last one.
TEST(OutputSums, ElementsOfStridedSums) {
  const Oracle::Sums sums{.extent = 5, .stride = 3, .width = 2};
  EXPECT_EQ(elements_of_sum(sums, 0), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(elements_of_sum(sums, 2), (std::vector<int64_t>{12}));
  EXPECT_EQ(elements_of_sum(sums, 4), (std::vector<int64_t>{7, 10}));
  EXPECT_EQ(elements_of_sum(sums, 9), (std::vector<int64_t>{15, 18}));
}

TEST(OutputSums, WholeOutputsNeedNone) {
  const Workload w = parse_workload("matmul:m=8,n=64,k=8");
  OperandSet operands(operands_of(w, {}), kSeed);
  const Reference reference = reference_of(oracle_on(w, operands, {}), operands.output(), {}, 1);
  EXPECT_FALSE(reference.sums);
  EXPECT_EQ(reference.values.size(), 512u);
}

TEST(OutputSums, AnotherSeedMakesOthers) {
  const Workload w = parse_workload("matmul:m=64,n=64,k=64");
  OperandSet operands(operands_of(w, {}), kSeed);
  auto weights = [&](uint64_t seed) {
    const auto oracle = oracle_on(w, operands, {});
    const ReferenceLimits limits{.seconds = oracle->whole_cost().seconds * 0.9, .samples = 16};
    const Reference reference = reference_of(oracle, operands.output(), limits, seed);
    return reference.sums ? reference.sums->weights : std::vector<int>();
  };
  EXPECT_EQ(weights(1).size(), 64u);
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(OutputSums, WithoutThemThereAreSamples) {
  const Workload w = parse_workload("softmax:m=64,n=512");
  OperandSet operands(operands_of(w, {}), kSeed);
  const Reference reference =
      reference_of(oracle_on(w, operands, {}), operands.output(), {.seconds = 0, .samples = 96}, 1);
  EXPECT_FALSE(reference.sums);
  EXPECT_GE(reference.values.size(), 80u);
  EXPECT_LE(reference.values.size(), 96u);
}

}  // namespace
}  // namespace tilewright
