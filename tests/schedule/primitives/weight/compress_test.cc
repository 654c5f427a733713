#include "schedule/primitives/weight/compress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "schedule/tree.h"
#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// C[4, n] += A[4, k] * B[k, n].
std::string product(int64_t k, int64_t n, const std::string& elem = "f32") {
  return fmt::format(R"(
program product(A: f32[4, {0}] input, B: {2}[{0}, {1}] weight, C: f32[4, {1}] output) {{
  block root() {{
    for i in 0..4 {{
      for j in 0..{1} {{
        for k in 0..{0} {{
          block C(vi: spatial 4 = i, vj: spatial {1} = j, vk: reduce {0} = k) {{
            init {{ C[vi, vj] = 0.0f32 }}
            C[vi, vj] = (C[vi, vj] + (A[vi, vk] * {3}))
          }}
        }}
      }}
    }}
  }}
}})",
                     k, n, elem, elem == "f32" ? "B[vk, vj]" : "cast<f32>(B[vk, vj])");
}

// Random operands whose B keeps `keep` rows of each `of` in `vector` columns; the rows depend on
// the position.
NdArrays operands(const Program& p, int64_t keep, int64_t of, int64_t vector, bool fewer = false) {
  NdArrays arrays;
  uint64_t seed = 3;
  for (const Param& param : p.params) {
    if (param.role == ParamRole::Output) continue;
    NdArray& a = arrays[param.buffer->name] =
        NdArray::random(param.buffer->elem, const_shape(param.buffer), seed++);
    if (param.role != ParamRole::Weight) continue;
    for (int64_t k = 0; k < a.shape[0]; ++k) {
      for (int64_t j = 0; j < a.shape[1]; ++j) {
        int64_t start = k / of + j / vector;  // first kept row of this group
        bool kept = (k % of + start) % of < keep - (fewer && start % 3 == 0);
        double& value = a.data[static_cast<size_t>(k * a.shape[1] + j)];
        value = kept ? (value == 0 ? 1 : value) : 0;
      }
    }
  }
  return arrays;
}

void expect_same(const Program& before, const Module& after, const NdArrays& inputs) {
  NdArrays want = inputs, got = inputs;
  interpret(before, want);
  interpret(after, got);
  const NdArray &a = want.at("C"), &b = got.at("C");
  for (size_t i = 0; i < a.data.size(); ++i) ASSERT_NEAR(a.data[i], b.data[i], 1e-4) << i;
}

TEST(CompressNm, KeepsTheElementsAndTheirRows) {
  RewriteCase c(product(8, 6));
  c.s.compress_nm({"C"}, "B", 2, 4, 2);
  EXPECT_GOLDEN(c.str());
  EXPECT_TRUE(replays(c.before, c.s));
  expect_same(c.before, c.s.module(), operands(c.before, 2, 4, 2));
}

struct Case {
  int64_t k, n, keep, of, vector;
};

TEST(CompressNm, MeansTheSameForEveryPattern) {
  for (const Case& c : {Case{8, 6, 1, 2, 1}, Case{12, 5, 2, 4, 1}, Case{12, 20, 1, 4, 8},
                        Case{11, 7, 2, 4, 2}, Case{13, 5, 3, 5, 3}, Case{40, 17, 8, 32, 16},
                        Case{9, 3, 1, 64, 1}, Case{10, 6, 4, 4, 2}, Case{20, 9, 4, 8, 4}}) {
    for (bool fewer : {false, true}) {
      SCOPED_TRACE(fmt::format("k={} n={} {}:{} vector {}", c.k, c.n, c.keep, c.of, c.vector));
      Program before = parse_program(product(c.k, c.n));
      Schedule s(before);
      s.compress_nm({"C"}, "B", c.keep, c.of, c.vector);
      expect_same(before, s.module(), operands(before, c.keep, c.of, c.vector, fewer));
    }
  }
}

TEST(CompressNm, TakesLowBitWeights) {
  for (const char* elem : {"i4", "u2", "nf4", "f8e4m3"}) {
    SCOPED_TRACE(elem);
    Program before = parse_program(product(12, 10, elem));
    Schedule s(before);
    s.compress_nm({"C"}, "B", 2, 4, 2);
    expect_same(before, s.module(), operands(before, 2, 4, 2));
  }
}

TEST(CompressNm, ScalesOfGroupsThatHoldWholePatternsNeedNoRow) {
  Program before = lower(make_workload(
      parse_spec("matmul:m=4,n=10,k=32,w.dtype=i4,w.group=8,w.sparse=2:4,w.vector=2")));
  Schedule s(before);
  s.compute_inline({"B_value"});
  s.compress_nm({"C"}, "B", 2, 4, 2);
  NdArrays inputs = operands(before, 2, 4, 2);
  inputs["B.scale"] = NdArray::random(ElemType::f32, {4, 10}, 9);
  expect_same(before, s.module(), inputs);
  // k // 8 of row r is r // 4, whatever the row's position in its group.
  EXPECT_THAT(to_string(s.program()), ::testing::HasSubstr("B.scale[floordiv(floordiv(vk, 2), 2)"));
}

// Elements at their zero points are omitted, even in a short last group. Padding elements are at
// their zero points.
TEST(CompressNm, LeavesOutWhatStandsAtItsZeroPoint) {
  for (const char* spec :
       {"matmul:m=2,n=6,k=16,w.dtype=u4,w.zero=u4,w.group=8,w.sparse=2:4,w.vector=2",
        "matmul:m=2,n=5,k=13,w.dtype=u2,w.zero=u2,w.group=3,w.scale=none,w.sparse=3:4",
        "matmul:m=2,n=5,k=12,w.dtype=i4,w.zero=u4,trans_b=true,batch=2,w.sparse=1:4"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    Program before = lower(w);
    NdArrays inputs;
    uint64_t seed = 3;
    for (const Param& p : before.params) {
      if (p.role == ParamRole::Output) continue;
      inputs[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), seed++);
    }
    // Only the first `keep` rows of each group may be nonzero.
    const bool transposed = w.weight->k_dims[0] == 2;
    NdArray &b = inputs.at("B"), &zero = inputs.at("B.zero");
    const int64_t columns = zero.shape.back(), groups = zero.shape[zero.shape.size() - 2];
    const int64_t k = b.shape[static_cast<size_t>(w.weight->k_dims[0])];
    for (double& z : zero.data) z = std::abs(z);
    for (size_t i = 0; i < b.data.size(); ++i) {
      auto flat = static_cast<int64_t>(i), own = flat / (k * columns), at = flat % (k * columns);
      int64_t row = transposed ? at % k : at / columns, column = transposed ? at / k : at % columns;
      if (row % w.weight->of < w.weight->keep) continue;
      b.data[i] =
          zero.data[static_cast<size_t>((own * groups + row / w.weight->group) * columns + column)];
    }
    Schedule s(before);
    s.compute_inline({"B_value"});
    s.compress_nm({"C"}, "B", w.weight->keep, w.weight->of, w.weight->vector);
    EXPECT_EQ(s.module().packs[0].params.size(), 3u);
    EXPECT_TRUE(replays(before, s));
    expect_same(before, s.module(), inputs);
    s.prepack("B_values", IndexMap::make(b.shape.size() == 2 ? 2 : 3, [](auto x) {
                std::reverse(x.begin(), x.end());
                return std::vector<Expr>(x.begin(), x.end());
              }));
    expect_same(before, s.module(), inputs);
  }
}

// Groups within the input channels of one window position.
TEST(CompressNm, TakesConvolutions) {
  Workload w = make_workload(
      parse_spec("conv2d:n=1,h=4,w=4,ci=8,co=6,kernel=2,w.dtype=i4,w.group=8,w.sparse=2:4"));
  Program before = lower(w);
  NdArrays inputs;
  for (const Param& p : before.params) {
    if (p.role == ParamRole::Output) continue;
    inputs[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), 5);
  }
  std::vector<double>& b = inputs.at("W").data;
  for (size_t i = 0; i < b.size(); ++i) {
    if ((i / 6 + i % 6) % 4 >= 2) b[i] = 0;
  }
  Schedule s(before);
  s.compute_inline({"W_value"});
  s.compress_nm({"Y"}, "W", 2, 4, 1);
  EXPECT_TRUE(replays(before, s));
  NdArrays want = inputs, got = inputs;
  interpret(before, want);
  interpret(s.module(), got);
  for (size_t i = 0; i < want.at("Y").data.size(); ++i) {
    ASSERT_NEAR(want.at("Y").data[i], got.at("Y").data[i], 1e-4) << i;
  }
  // The scale's group is a whole group of channels, so no row is looked up for it.
  EXPECT_THAT(to_string(s.program()), ::testing::Not(::testing::HasSubstr("W.scale[floordiv((((")));
}

TEST(CompressNm, ComposesWithPrepackAndTiles) {
  Program before = parse_program(product(16, 20));
  Schedule s(before);
  s.compress_nm({"C"}, "B", 2, 4, 4);
  s.prepack("B_values", IndexMap::parse("(k, j) -> (floordiv(j, 8), k, floormod(j, 8))"));
  s.prepack("B_values", IndexMap::parse("(b, k, j) -> (b, floordiv(k, 4), j, floormod(k, 4))"));
  s.prepack("B_rows", IndexMap::parse("(k, j) -> (j, k)"));
  std::vector<Loop> loops = s.loops({"C"});
  std::vector<Loop> j = s.split(loops[1], {-1, 8}), k = s.split(loops[2], {-1, 2});
  s.reorder({j[0], k[0], k[1], j[1]});
  EXPECT_TRUE(replays(before, s));
  expect_same(before, s.module(), operands(before, 2, 4, 4));
}

TEST(CompressNmRefuses, PatternsThatAreNone) {
  RewriteCase c(product(8, 6));
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "B", 5, 4, 1); }, RefusalKind::BadArgument,
            "expected a pattern of 1 <= keep <= of <= 64, got 5:4", false);
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "B", 2, 4, 0); }, RefusalKind::BadArgument,
            "argument 'vector' of compress_nm: expected 1 or more, got 0", false);
}

TEST(CompressNmRefuses, WhatIsNoWeightOfTheBlock) {
  RewriteCase c(product(8, 6));
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "A", 2, 4, 1); }, RefusalKind::BadArgument,
            "'A' is an input; only a weight can be compressed at load", false);
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "D", 2, 4, 1); }, RefusalKind::NotFound,
            "no weight 'D'", false);
}

TEST(CompressNmRefuses, AWeightThatIsLaidOutAlready) {
  RewriteCase c(product(8, 6));
  c.s.prepack("B", IndexMap::parse("(k, j) -> (j, k)"));
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "B_packed", 2, 4, 1); },
            RefusalKind::BadArgument,
            "'B_packed' is laid out already; compress a weight before that", false);
}

TEST(CompressNmRefuses, ALoopThatIsSplit) {
  RewriteCase c(product(8, 6));
  c.s.split({"k"}, {-1, 2});
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "B", 2, 4, 1); }, RefusalKind::BadStructure,
            "iterator 'vk' of block 'C' is not a loop of its own any more");
}

TEST(CompressNmRefuses, TermsInWhichZerosCount) {
  RewriteCase c(R"(
program shifted(A: f32[8] input, B: f32[8, 4] weight, C: f32[4] output) {
  block root() {
    for j in 0..4 { for k in 0..8 { block C(vj: spatial 4 = j, vk: reduce 8 = k) {
      init { C[vj] = 0.0f32 }
      C[vj] = (C[vj] + (A[vk] * (B[vk, vj] - 1.0f32)))
    } } }
  }
})");
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "B", 2, 4, 1); }, RefusalKind::Unsupported,
            "block 'C' is no sum of products with 'B' as a factor: its zeros would count");
}

TEST(CompressNmRefuses, AWeightThatAnotherBlockReads) {
  Program p = lower(make_workload(
      parse_spec("matmul:m=4,n=10,k=32,w.dtype=i4,w.group=8,w.sparse=2:4,w.vector=2")));
  RewriteCase c(to_string(p));
  c.refuses([](Schedule& s) { s.compress_nm({"C"}, "B", 2, 4, 2); }, RefusalKind::Unsupported,
            "block 'B_value' reads 'B' too; only the contraction may");
}

TEST(CompressNmRefuses, GroupsThatRunOnFromOneRowOfTheWindowToTheNext) {
  RewriteCase c(to_string(
      lower(make_workload(parse_spec("conv1d:n=1,l=6,ci=6,co=4,kernel=2,w.sparse=2:4")))));
  c.refuses([](Schedule& s) { s.compress_nm({"Y"}, "W", 2, 4, 1); }, RefusalKind::Unsupported,
            "groups of 4 rows run on from one row of the window to the next: the last "
            "reduction dimension of 'W' has 6 elements");
}

// The rows are also read at the padded iterator and have no padding (found by the fuzzer).
TEST(CompressNm, IsNotPaddedAfterwards) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=6,n=18,k=24,dtype=u8,w.sparse=2:5"))));
  s.compress_nm({"C"}, "B", 2, 5, 1);
  try {
    s.pad_einsum({"C"}, {2, 1, 3});
    FAIL() << "no error";
  } catch (const ScheduleError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(
                              "an index of 'A' in block 'C' is more than a padded iterator"));
  }
}

TEST(CompressNmRefuses, PaddingThatCannotBeWorthNothing) {
  Schedule s(lower(
      make_workload(parse_spec("matmul:m=2,n=3,k=5,w.dtype=u4,w.zero=u8,w.group=4,w.sparse=2:4"))));
  s.compute_inline({"B_value"});
  try {
    s.compress_nm({"C"}, "B", 2, 4, 1);
    FAIL() << "no error";
  } catch (const ScheduleError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("the last group of 'B' has 1 rows of 2, and u4 does "
                                               "not hold every zero point of type u8"));
  }
}

}  // namespace
}  // namespace tilewright::test
