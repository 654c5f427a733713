// The oracle's promises beyond values: error bounds, wrapping, refusals.
#include <gmock/gmock.h>

#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

std::map<std::string, ElementReader> constant_inputs(const Workload& w, double value) {
  std::map<std::string, ElementReader> readers;
  for (const Param& p : w.inputs) readers[p.buffer->name] = [=](int64_t) { return value; };
  return readers;
}

TEST(Oracle, MagnitudeAndTermsOfASum) {
  Workload w = make_workload(parse_spec("matmul:m=1,n=1,k=100"));
  // Terms alternate in sign: they cancel, their magnitudes do not.
  std::map<std::string, ElementReader> readers;
  readers["A"] = [](int64_t i) { return i % 2 == 0 ? 0.5 : -0.5; };
  readers["B"] = [](int64_t) { return 2.0; };
  Oracle::Value v = Oracle(w, readers).at(0);
  EXPECT_EQ(v.value, 0);
  EXPECT_EQ(v.terms, 100);
  EXPECT_NEAR(v.magnitude, 100, 5);
  EXPECT_NEAR(v.error, 100 * 0x1p-24 * 41, 1e-7);  // 4 sqrt(100) roundings, one for the product
}

TEST(Oracle, ErrorIsBelowALostTerm) {
  OpRun run("matmul:m=1,n=1,k=4096");
  double smallest = 0;
  for (int k = 0; k < 4096; ++k) smallest += std::abs(run.in("A")(0, k) * run.in("B")(k, 0)) / 4096;
  EXPECT_LT(run.oracle().at(0).error, smallest / 2);
}

// exp(1000) is no number of f64; what is divided by it is nothing, and known to be.
TEST(Oracle, GatesThatAreShutAreNothing) {
  OpRun run("matmul:m=1,n=1,k=1,epilogue=[silu]");
  run.in("A")(0, 0) = -1000;
  run.in("B")(0, 0) = 1;
  const Oracle::Value v = run.oracle().at(0);
  EXPECT_EQ(v.value, 0);
  EXPECT_LT(v.error, 1e-30);
}

// exp(90) is no number of f32: there a kernel may have nothing, where f64 has -90 exp(-90).
TEST(Oracle, GatesThatF32DoesNotOpenMayBeNothing) {
  OpRun run("matmul:m=1,n=1,k=1,epilogue=[silu]");
  run.in("A")(0, 0) = -90;
  run.in("B")(0, 0) = 1;
  const Oracle::Value shut = run.oracle().at(0);
  EXPECT_LT(shut.value, 0);
  EXPECT_GE(shut.error, -shut.value);
  EXPECT_LT(shut.error, 1e-36);
  run.in("A")(0, 0) = -80;
  const Oracle::Value open = run.oracle().at(0);
  EXPECT_LT(open.error, -open.value / 1000);
}

// Kernels give 0 in place of a subnormal exponential, which weights of an attention far below the maximum are.
TEST(Oracle, SubnormalExponentialsMayBeNothing) {
  OpRun run("expr:expr=\"S[i] += exp(X[i,j])\",dims.i=1,dims.j=10");
  for (int j = 0; j < 10; ++j) run.in("X")(0, j) = -87.5;
  const Oracle::Value shut = run.oracle().at(0);
  EXPECT_GE(shut.error, shut.value);
  EXPECT_LT(shut.error, 2e-37);
  for (int j = 0; j < 10; ++j) run.in("X")(0, j) = -87;
  const Oracle::Value open = run.oracle().at(0);
  EXPECT_LT(open.error, open.value / 10);
}

TEST(Oracle, IntegersHaveNoError) {
  OpRun run("matmul:m=2,n=2,k=64,dtype=i8");
  EXPECT_EQ(run.oracle().at(3).error, 0);
}

TEST(Oracle, IntegerArithmeticWrapsExactly) {
  Workload w = make_workload(parse_spec("matmul:m=1,n=1,k=3,dtype=i32"));
  int64_t big = 2147483647;
  Oracle::Value v = Oracle(w, constant_inputs(w, static_cast<double>(big))).at(0);
  EXPECT_EQ(v.value,
            static_cast<double>(static_cast<int32_t>(3u * static_cast<uint32_t>(big * big))));
  Workload narrow = make_workload(parse_spec("matmul:m=1,n=1,k=3,dtype=i8,out=i8"));
  EXPECT_EQ(Oracle(narrow, constant_inputs(narrow, 100)).at(0).value, int8_t(30000));
}

TEST(Oracle, NarrowOutputsRoundAndGrantANeighbour) {
  Workload w = make_workload(parse_spec("matmul:m=1,n=1,k=3,dtype=bf16"));
  Oracle::Value v = Oracle(w, constant_inputs(w, 1.0078125)).at(0);
  EXPECT_EQ(v.value, round_to(ElemType::bf16, 3 * 1.0078125 * 1.0078125));
  EXPECT_GT(v.error, v.value * 0x1p-8);
  EXPECT_LT(v.error, v.value * 0x1p-6);
}

TEST(Oracle, StridedAndPaddedReductionsReadOnlyInside) {
  Workload w = make_workload(parse_spec("conv2d:n=1,h=5,w=5,ci=3,co=2,kernel=3,pad=1,stride=2"));
  std::map<std::string, ElementReader> readers = constant_inputs(w, 1);
  int64_t highest = 0, lowest = 0;
  readers["X"] = [&](int64_t i) {
    highest = std::max(highest, i);
    lowest = std::min(lowest, i);
    return 1.0;
  };
  Oracle oracle(w, readers);
  EXPECT_EQ(oracle.at(0).value, 3 * 4);  // a corner sees 2 x 2 taps
  EXPECT_EQ(oracle.at(8).value, 3 * 9);  // the middle sees all
  EXPECT_EQ(oracle.at(17).value, 3 * 4);
  EXPECT_EQ(lowest, 0);
  EXPECT_EQ(highest, 5 * 5 * 3 - 1);
}

TEST(Oracle, RemembersDearStages) {
  Workload w = make_workload(parse_spec("softmax:m=1,n=1000"));
  int64_t reads = 0;
  std::map<std::string, ElementReader> readers;
  readers["X"] = [&](int64_t) { return ++reads, 0.0; };
  Oracle oracle(w, readers);
  for (int j = 0; j < 1000; ++j) EXPECT_DOUBLE_EQ(oracle.at(j).value, 1e-3);
  EXPECT_LE(reads, 3000);  // the maximum once, the sum once, each output once
}

std::string refusal_oracle(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

TEST(Oracle, RefusesWhatIsMissing) {
  Workload w = make_workload(parse_spec("matmul:m=2..4,n=2,k=2"));
  auto inputs = constant_inputs(w, 1);
  EXPECT_THAT(refusal_oracle([&] { Oracle(w, inputs); }),
              testing::HasSubstr("the dimension m of matmul needs a value"));
  EXPECT_THAT(refusal_oracle([&] {
                Oracle(w, inputs, {{"m", 5}});
              }),
              testing::HasSubstr("the dimension m of matmul is 5, outside 2..4"));
  EXPECT_THAT(refusal_oracle([&] {
                Oracle(w, {{"A", inputs["A"]}}, {{"m", 3}});
              }),
              testing::HasSubstr("the input B of matmul is missing"));
  EXPECT_THAT(refusal_oracle([&] {
                Oracle(w, inputs, {{"m", 3}}).at(6);
              }),
              testing::HasSubstr("element 6 lies beyond the stage"));
  EXPECT_THAT(refusal_oracle([&] {
                Oracle(w, inputs, {{"m", 3}}).at(-1);
              }),
              testing::HasSubstr("element -1 lies beyond the stage"));
}

TEST(UnitRoundoff, IsHalfTheSpacingAtOne) {
  for (ElemType t : {ElemType::f64, ElemType::f32, ElemType::f16, ElemType::bf16, ElemType::f8e4m3,
                     ElemType::f8e5m2}) {
    double u = unit_roundoff(t);
    EXPECT_EQ(round_to(t, 1 + 2 * u), 1 + 2 * u) << to_string(t);
    if (t == ElemType::f64) continue;  // nothing lies between
    EXPECT_EQ(round_to(t, 1 + 0.99 * u), 1) << to_string(t);
  }
  EXPECT_EQ(unit_roundoff(ElemType::i8), 0);
}

TEST(Notation, IsIndexNotation) {
  auto text = [](const std::string& spec) { return to_string(make_workload(parse_spec(spec))); };
  EXPECT_EQ(text("matmul:m=2,n=3,k=4"), "C[i, j] += A[i, k] * B[k, j]\n");
  EXPECT_EQ(text("matmul:m=2,n=3,k=4,dtype=bf16,epilogue=[bias,relu]"),
            "C_acc[i, j] += f32(A[i, k]) * f32(B[k, j])\n"
            "C[i, j] = bf16(max(C_acc[i, j] + f32(bias[j]), 0))\n");
  EXPECT_EQ(text("softmax:m=2,n=3"),
            "X_max[i] max= X[i, j]\n"
            "X_exp[i, j] = exp(X[i, j] - X_max[i])\n"
            "X_sum[i] += X_exp[i, j]\n"
            "X_scale[i] = 1 / X_sum[i]\n"
            "Y[i, j] = X_exp[i, j] * X_scale[i]\n");
  EXPECT_EQ(text("elementwise:shape=4,fn=silu"), "Y[i0] = X[i0] / (1 + exp(-X[i0]))\n");
  EXPECT_EQ(text("conv1d:n=1,l=8,ci=4,co=4,kernel=3,stride=2,pad=1,groups=2"),
            "X_pad[n, l, c] = select(l >= 1 && l < 9, X[n, l - 1, c], 0)\n"
            "Y[n, ol, co] += X_pad[n, ol * 2 + kl, co // 2 * 2 + ci] * W[kl, ci, co]\n");
}

}  // namespace
}  // namespace tilewright
