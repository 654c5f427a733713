// Attention against plain loops, and the specs that it refuses.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/ir/ops_harness.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

struct Shape {
  int batch, heads, kv_heads, m, n, d, dv;
  bool causal = false;
  double scale = 0;
};

// Writes what attention gives for the operands of `run`, a row at a time in f64.
void expect_attention(OpRun& run, const Shape& s, double tolerance = 1e-6) {
  View q = run.in("Q"), k = run.in("K"), v = run.in("V"), y = run.expected();
  ASSERT_EQ(y.array.shape, (std::vector<int64_t>{s.batch, s.heads, s.m, s.dv}));
  for (int b = 0; b < s.batch; ++b)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < s.m; ++i) {
        const int g = h * s.kv_heads / s.heads;
        const int seen = s.causal ? i + s.n - s.m + 1 : s.n;
        std::vector<double> score(static_cast<size_t>(seen));
        for (int j = 0; j < seen; ++j) {
          for (int c = 0; c < s.d; ++c) score[j] += q(b, h, i, c) * k(b, g, j, c) * s.scale;
        }
        const double top = *std::max_element(score.begin(), score.end());
        double sum = 0;
        for (double& x : score) sum += x = std::exp(x - top);
        for (int e = 0; e < s.dv; ++e) {
          for (int j = 0; j < seen; ++j) y(b, h, i, e) += score[j] / sum * v(b, g, j, e);
        }
      }
  run.check(tolerance);
}

TEST(Attention, HeadsAreApart) {
  OpRun run("attention:batch=2,heads=3,m=4,n=7,d=4");
  expect_attention(run, {2, 3, 3, 4, 7, 4, 4, false, 0.5});
}

TEST(Attention, HeadsShareKeysAndValues) {
  OpRun run("attention:heads=4,kv_heads=2,m=3,n=6,d=4,dv=5,scale=2");
  expect_attention(run, {1, 4, 2, 3, 6, 4, 5, false, 2});
}

TEST(Attention, CausalRowsSeeNoLaterKey) {
  OpRun square("attention:heads=2,m=6,n=6,d=4,causal=true");
  expect_attention(square, {1, 2, 2, 6, 6, 4, 4, true, 0.5});
  OpRun last("attention:heads=2,m=3,n=8,d=4,causal=true");  // three queries behind five keys
  expect_attention(last, {1, 2, 2, 3, 8, 4, 4, true, 0.5});
}

TEST(Attention, LargeScoresDoNotOverflow) {
  OpRun run("attention:m=2,n=5,d=4,scale=1");
  for (int c = 0; c < 4; ++c) run.in("Q")(0, 0, 1, c) = run.in("K")(0, 0, 3, c) = 8;
  expect_attention(run, {1, 1, 1, 2, 5, 4, 4, false, 1});
}

TEST(Attention, NarrowTypesRoundTheWeights) {
  OpRun run("attention:heads=2,m=4,n=9,d=4,dtype=bf16,out=f32");
  expect_attention(run, {1, 2, 2, 4, 9, 4, 4, false, 0.5}, 4e-3);
}

TEST(Attention, DynamicSizes) {
  OpRun decode("attention:heads=2,m=1,n=1..16,d=4,causal=true", {{"n", 11}});
  expect_attention(decode, {1, 2, 2, 1, 11, 4, 4, true, 0.5});
  OpRun both("attention:batch=1..4,heads=2,m=1..8,n=4..16,d=4", {{"batch", 2}, {"m", 3}, {"n", 9}});
  expect_attention(both, {2, 2, 2, 3, 9, 4, 4, false, 0.5});
}

TEST(Attention, DefaultsAreWrittenOut) {
  EXPECT_EQ(canonical_text(parse_spec("attention:heads=8,m=4,n=4,d=64")),
            R"({"acc":"f32","batch":1,"causal":false,"d":64,"dtype":"f32","dv":64,"heads":8,)"
            R"("kv_heads":8,"m":4,"n":4,"op":"attention","out":"f32","scale":0.125})");
}

void expect_refused(const std::string& spec, const std::string& message) {
  try {
    parse_spec(spec);
    ADD_FAILURE() << spec << " was not refused";
  } catch (const SpecError& e) {
    EXPECT_THAT(e.what(), HasSubstr(message));
  }
}

TEST(Attention, Refuses) {
  expect_refused("attention:heads=6,kv_heads=4,m=2,n=2,d=4",
                 "expected a divisor of heads=6, got 4");
  expect_refused("attention:m=5,n=4,d=4,causal=true", "n must not be below m; got m=5 and n=4");
  expect_refused("attention:m=1..5,n=4..9,d=4,causal=true",
                 "n must not be below m; got m=1..5 and n=4..9");
  expect_refused("attention:m=2,n=2", "attention needs the key d");
  expect_refused("attention:m=2,n=2,d=4,dtype=i8", "expected one of f64, f32, f16, bf16, got");
}

}  // namespace
}  // namespace tilewright
