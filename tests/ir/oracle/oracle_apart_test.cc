// The error that the oracle grants to sums whose terms kernels take apart.
#include <gtest/gtest.h>

#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

// C[0, 0] as the scaled sums of its groups, added up in f32.
template <class Group>
float by_groups(OpRun& run, int k, int group, Group&& sum) {
  float total = 0;
  for (int first = 0; first < k; first += group) {
    const auto scale = static_cast<float>(run.in("B.scale")(first / group, 0));
    total += sum(first, std::min(k, first + group)) * scale;
  }
  return total;
}

// The offset of a group, or 0.
double added(OpRun& run, int group) {
  return run.arrays().count("B.offset") != 0 ? run.in("B.offset")(group, 0) : 0;
}

// s * (sum of a * (q + offset) - (z + offset) * sum of a) + o * sum of a, each operation rounded to
// f32, the second sum in another order than the first.
float summed_apart(OpRun& run, int k, int group, bool shifted, float offset) {
  float total = 0;
  for (int first = 0; first < k; first += group) {
    float sum = 0;
    for (int r = std::min(k, first + group); r-- > first;) {
      sum += static_cast<float>(run.in("A")(0, r));
    }
    total += static_cast<float>(added(run, first / group)) * sum;
  }
  return total + by_groups(run, k, group, [&](int first, int end) {
           float codes = 0, sum = 0, zero = offset;
           for (int r = first; r < end; ++r) {
             const auto a = static_cast<float>(run.in("A")(0, r));
             const auto code = static_cast<float>(run.in("B")(r, 0));
             codes += a * (code + offset);
             sum += static_cast<float>(run.in("A")(0, end - 1 - (r - first)));
           }
           if (shifted) zero += static_cast<float>(run.in("B.zero")(first / group, 0));
           return codes - zero * sum;
         });
}

// The magnitude of an ordinary term.
double ordinary_term(OpRun& run, int k, int group, bool shifted) {
  double sum = 0;
  for (int r = 0; r < k; ++r) {
    const double zero = shifted ? run.in("B.zero")(r / group, 0) : 0;
    const double scale = run.in("B.scale")(r / group, 0);
    const double value = (run.in("B")(r, 0) - zero) * scale + added(run, r / group);
    sum += std::abs(run.in("A")(0, r) * value);
  }
  return sum / k;
}

struct Form {
  const char* keys;
  int k, group;
  bool shifted;
  float offset;  // with which codes are read
};

const Form kForms[] = {
    {"w.dtype=u4,w.zero=u4,w.group=-1", 22, 22, true, 0},
    {"w.dtype=u8,w.zero=u8,w.group=-1", 300, 300, true, 0},
    {"w.dtype=u8,w.zero=f16,w.scale=f16,w.group=32", 4096, 32, true, 0},
    {"w.dtype=i4,w.group=-1", 200, 200, false, 8},
    {"w.dtype=i4,w.zero=u4,w.group=128", 2048, 128, true, 8},
    {"w.dtype=i2,w.scale=bf16,w.group=16", 1024, 16, false, 2},
    {"w.dtype=u4,w.offset=f32,w.group=32", 2048, 32, false, 0},
    {"w.dtype=u8,w.offset=f16,w.scale=f16,w.group=-1", 300, 300, false, 0},
    {"w.dtype=i4,w.offset=bf16,w.group=16", 512, 16, false, 8},
};

OpRun run_of(const Form& form) {
  return OpRun("matmul:m=1,n=1,k=" + std::to_string(form.k) + "," + form.keys);
}

// A kernel that takes zero points off sums of codes is within the bound, and one that leaves an
// ordinary term out is not.
TEST(OracleApart, SumsOfCodesLessZeroPoints) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.keys);
    OpRun run = run_of(form);
    const Oracle::Value want = run.oracle().at(0);
    const float got = summed_apart(run, form.k, form.group, form.shifted, form.offset);
    EXPECT_LE(std::abs(static_cast<double>(got) - want.value), 2 * want.error);
    EXPECT_LT(2 * want.error, ordinary_term(run, form.k, form.group, form.shifted));
  }
}

// Codes that stand at their zero point, as those that a sparse weight leaves out: the value is 0,
// and what such a kernel makes of it is the rounding of sums that are none.
TEST(OracleApart, WhatCancelsIsGrantedItsRounding) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.keys);
    OpRun run = run_of(form);
    const bool with_offset = run.arrays().count("B.offset") != 0;
    for (int g = 0; g * form.group < form.k; ++g) {
      if (form.shifted) run.in("B.zero")(g, 0) = 3 + g % 4;  // a code of every type
      if (with_offset) run.in("B.offset")(g, 0) = -2 * run.in("B.scale")(g, 0);
    }
    for (int r = 0; r < form.k; ++r) {
      run.in("B")(r, 0) = form.shifted ? run.in("B.zero")(r / form.group, 0) : with_offset ? 2 : 0;
    }
    const Oracle::Value want = run.oracle().at(0);
    const float got = summed_apart(run, form.k, form.group, form.shifted, form.offset);
    EXPECT_EQ(want.value, 0);
    EXPECT_NE(got, 0);
    EXPECT_LE(std::abs(got), 2 * want.error);
    EXPECT_LT(2 * want.error, 0.1);  // a code that is off by 1 makes 0.25, on average
  }
}

// Where no two terms share a zero point, and where codes need no offset, nothing is taken apart.
TEST(OracleApart, OtherTermsAreHeldToTheirOwn) {
  for (const char* keys :
       {"w.dtype=u4,w.zero=u4,w.group=1", "w.dtype=u4,w.offset=f32,w.group=1",
        "w.dtype=i8,w.group=8", "w.dtype=i1,w.group=8", "w.dtype=u4,w.group=8"}) {
    SCOPED_TRACE(keys);
    OpRun run(std::string("matmul:m=1,n=1,k=16,") + keys);
    const bool shifted = run.arrays().count("B.zero") != 0;
    for (int r = 0; r < 16; ++r) run.in("B")(r, 0) = shifted ? run.in("B.zero")(r, 0) : 0;
    for (int r = 0; r < 16 && run.arrays().count("B.offset") != 0; ++r) {
      run.in("B.offset")(r, 0) = 0;
    }
    EXPECT_EQ(run.oracle().at(0).error, 0);
  }
}

// An added value that belongs to no stored code, as a bias of the activations is: no kernel sums it
// by itself.
TEST(OracleApart, SumsOfOtherElementsStay) {
  Buffer x = make_buffer("X", ElemType::f32, {9}), m = make_buffer("M", ElemType::f32, {1}),
         y = make_buffer("Y", ElemType::f32, {9});
  Var i("i"), k("k");
  Workload w;
  w.op = "biased";
  w.inputs = {{x, ParamRole::Input}, {m, ParamRole::Input}, {y, ParamRole::Input}};
  w.stages = {{make_buffer("S", ElemType::f32, {1}),
               {i},
               {{k, Expr(9)}},
               Reducer::Sum,
               (load(x, {k}) + load(m, {Expr(0)})) * load(y, {k})}};
  auto all = [](double value) { return [value](int64_t) { return value; }; };
  EXPECT_EQ(Oracle(w, {{"X", all(3)}, {"M", all(-3)}, {"Y", all(1)}}).at(0).error, 0);
}

// sum of (X[k] - M)^2, and of X[k] - M: no kernel takes squares apart, nor has it a reason to.
TEST(OracleApart, SquaresOfDifferencesStay) {
  Buffer x = make_buffer("X", ElemType::f32, {Expr(9)}), m = make_buffer("M", ElemType::f32, {1});
  Var i("i"), k("k");
  const Expr difference = load(x, {k}) - load(m, {Expr(0)});
  for (const Expr& term : {difference * difference, difference}) {
    Workload w;
    w.op = "spread";
    w.inputs = {{x, ParamRole::Input}, {m, ParamRole::Input}};
    w.stages = {{make_buffer("S", ElemType::f32, {1}), {i}, {{k, Expr(9)}}, Reducer::Sum, term}};
    auto three = [](int64_t) { return 3.0; };
    EXPECT_EQ(Oracle(w, {{"X", three}, {"M", three}}).at(0).error, 0);
  }
}

// A convolution's zero points are shared along what their groups run over.
TEST(OracleApart, GroupsOfAConvolution) {
  OpRun run("conv2d:n=1,h=3,w=3,ci=4,co=1,kernel=3,w.dtype=u4,w.zero=u4,w.group=4");
  for (int g = 0; g < 9; ++g) {
    run.in("W.zero")(g, 0) = 5;
    for (int c = 0; c < 4; ++c) run.in("W")(g / 3, g % 3, c, 0) = 5;
  }
  const Oracle::Value want = run.oracle().at(0);
  EXPECT_EQ(want.value, 0);
  EXPECT_GT(want.error, 0);
  EXPECT_LT(want.error, 1e-4);
}

}  // namespace
}  // namespace tilewright
