// Attention compared with plain loops, and the specs that it refuses.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

struct Shape {
  int batch, heads, kv_heads, m, n, d, dv;
  bool causal = false;
  double scale = 0;
  std::vector<int> keys = {}, queries = {};  // per sequence, where they differ
  int page = 0;                              // keys per page; 0 without pages
  int window = 0;                            // 0: there is none
  double cap = 0;
  std::function<double(int b, int h, int i, int j)> bias = {};
  bool sinks = false, alibi = false;
  int group = 0;  // elements that share a scale; 0: keys and values are stored as they are

  int keys_of(int b) const { return keys.empty() ? n : keys[b]; }
  int queries_of(int b) const { return queries.empty() ? m : queries[b]; }
  // The place of row `i` of sequence `b` among its keys.
  int position(int b, int i) const { return i + keys_of(b) - queries_of(b); }
  bool sees(int b, int i, int j) const {
    if (i >= queries_of(b) || j >= keys_of(b)) return false;
    const int ahead = j - position(b, i);
    return (!causal || ahead <= 0) && (window == 0 || std::abs(ahead) < window);
  }
};

// Writes the expected result of attention for the operands of `run`, one row at a time in f64.
void expect_attention(OpRun& run, const Shape& s, double tolerance = 1e-6) {
  View q = run.in("Q"), y = run.expected();
  auto key = [&](const std::string& name, int b, int g, int j, int c) {
    auto stored = [&](const std::string& array, int at) {
      if (s.page == 0) return run.in(array)(b, g, j, at);
      const int pages = static_cast<int>(run.in(array).array.shape[0]);
      const int page = std::clamp(static_cast<int>(run.in("T")(b, j / s.page)), 0, pages - 1);
      return run.in(array)(page, j % s.page, g, at);
    };
    if (s.group == 0) return stored(name, c);
    const bool shifted = run.arrays().contains(name + ".zero");
    return (stored(name, c) - (shifted ? stored(name + ".zero", c / s.group) : 0)) *
           stored(name + ".scale", c / s.group);
  };
  ASSERT_EQ(y.array.shape, (std::vector<int64_t>{s.batch, s.heads, s.m, s.dv}));
  for (int b = 0; b < s.batch; ++b)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < s.m; ++i) {
        const int g = h * s.kv_heads / s.heads;
        std::vector<int> seen;
        std::vector<double> score;
        for (int j = 0; j < s.n; ++j) {
          if (!s.sees(b, i, j)) continue;
          seen.push_back(j);
          double x = 0;
          for (int c = 0; c < s.d; ++c) x += q(b, h, i, c) * key("K", b, g, j, c) * s.scale;
          if (s.cap > 0) x = s.cap * std::tanh(x / s.cap);
          if (s.bias) x += s.bias(b, h, i, j);
          if (s.alibi) x -= run.in("slopes")(h)*std::abs(s.position(b, i) - j);
          score.push_back(x);
        }
        if (seen.empty()) continue;  // the row is 0
        const double top = *std::max_element(score.begin(), score.end());
        double sum = s.sinks ? std::exp(run.in("sinks")(h)-top) : 0;
        for (double& x : score) sum += x = std::exp(x - top);
        for (int e = 0; e < s.dv; ++e) {
          for (size_t at = 0; at < seen.size(); ++at) {
            y(b, h, i, e) += score[at] / sum * key("V", b, g, seen[at], e);
          }
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
  OpRun last("attention:heads=2,m=3,n=8,d=4,causal=true");  // three queries after five keys
  expect_attention(last, {1, 2, 2, 3, 8, 4, 4, true, 0.5});
}

void set_lengths(OpRun& run, const Shape& s) {
  for (int b = 0; b < s.batch; ++b) {
    run.in("N")(b) = s.keys[b];
    if (!s.queries.empty()) run.in("M")(b) = s.queries[b];
  }
}

// A length may be 0, n, or more than n.
TEST(Attention, SequencesHaveLengthsOfTheirOwn) {
  for (const char* causal : {"false", "true"}) {
    const bool is_causal = std::string(causal) == "true";
    OpRun keys(std::string("attention:batch=4,heads=2,m=3,n=6,d=4,lengths=keys,causal=") + causal);
    const Shape of_keys{4, 2, 2, 3, 6, 4, 4, is_causal, 0.5, {0, 2, 5, 6}};
    set_lengths(keys, of_keys);
    expect_attention(keys, of_keys);

    OpRun both(std::string("attention:batch=4,heads=2,m=5,n=5,d=4,lengths=both,causal=") + causal);
    const Shape of_both{4, 2, 2, 5, 5, 4, 4, is_causal, 0.5, {4, 2, 5, 0}, {4, 3, 1, 2}};
    set_lengths(both, of_both);
    expect_attention(both, of_both);
  }
  OpRun beyond("attention:m=2,n=3,d=4,lengths=keys");
  const Shape of_all{1, 1, 1, 2, 3, 4, 4, false, 0.5, {9}};
  set_lengths(beyond, of_all);
  expect_attention(beyond, of_all);
}

// Sequences share pages and leave some unused, and the last page may be partial. A page number out
// of range means the first or the last page.
TEST(Attention, KeysAndValuesLieInPages) {
  OpRun run("attention:batch=3,heads=4,kv_heads=2,m=1,n=10,d=4,dv=3,lengths=keys,page=4,pages=5");
  const std::vector<int> table = {4, 0, 2, 1, 1, 0, -7, 3, 99};
  for (int b = 0; b < 3; ++b) {
    for (int p = 0; p < 3; ++p) run.in("T")(b, p) = table[static_cast<size_t>(b * 3 + p)];
  }
  const Shape shape{3, 4, 2, 1, 10, 4, 3, false, 0.5, {10, 3, 9}, {}, 4};
  set_lengths(run, shape);
  expect_attention(run, shape);

  OpRun all("attention:m=3,n=1..9,d=4,page=1,pages=3", {{"n", 6}});
  for (int p = 0; p < 6; ++p) all.in("T")(0, p) = p % 3;
  expect_attention(all, {1, 1, 1, 3, 6, 4, 4, false, 0.5, {}, {}, 1});
}

TEST(Attention, WindowsSlide) {
  OpRun causal("attention:heads=2,m=4,n=9,d=4,causal=true,window=3");
  Shape behind{1, 2, 2, 4, 9, 4, 4, true, 0.5};
  behind.window = 3;
  expect_attention(causal, behind);

  OpRun around("attention:heads=2,m=6,n=6,d=4,window=2");
  Shape both{1, 2, 2, 6, 6, 4, 4, false, 0.5};
  both.window = 2;
  expect_attention(around, both);

  OpRun before("attention:m=7,n=4,d=4,window=2");  // the first two queries stand before all keys
  Shape misses{1, 1, 1, 7, 4, 4, 4, false, 0.5};
  misses.window = 2;
  expect_attention(before, misses);

  for (const char* causal_too : {"false", "true"}) {
    OpRun lengths(std::string("attention:batch=4,m=5,n=6,d=4,lengths=both,window=2,causal=") +
                  causal_too);
    Shape of_both{4, 1, 1, 5, 6, 4, 4, causal_too[0] == 't', 0.5, {4, 2, 6, 0}, {4, 2, 1, 2}};
    of_both.window = 2;
    set_lengths(lengths, of_both);
    expect_attention(lengths, of_both);
  }
}

// The cap comes before the bias and the distance, and a sink is one more score.
TEST(Attention, ScoresHaveTerms) {
  OpRun run(
      "attention:batch=2,heads=3,m=3,n=5,d=4,causal=true,scale=2,softcap=0.5,alibi=true,"
      "sinks=true,bias=n+heads+m");
  Shape all{2, 3, 3, 3, 5, 4, 4, true, 2};
  all.cap = 0.5;
  all.alibi = all.sinks = true;
  all.bias = [&](int, int h, int i, int j) { return run.in("bias")(h, i, j); };
  expect_attention(run, all);

  OpRun around("attention:heads=2,m=3,n=3,d=4,alibi=true");
  Shape distances{1, 2, 2, 3, 3, 4, 4, false, 0.5};
  distances.alibi = true;
  expect_attention(around, distances);

  OpRun empty("attention:batch=2,heads=2,m=2,n=4,d=4,lengths=keys,sinks=true");
  Shape lengths{2, 2, 2, 2, 4, 4, 4, false, 0.5, {0, 3}};
  lengths.sinks = true;
  set_lengths(empty, lengths);
  expect_attention(empty, lengths);
}

// The rows of a triangle share the bias of their pairs, and each row masks keys of its own.
TEST(Attention, NeighbouringSequencesShareTheirBias) {
  OpRun run("attention:batch=6,heads=2,m=3,n=3,d=4,bias=batch+heads+m+n,bias_shared=3");
  Shape pairs{6, 2, 2, 3, 3, 4, 4, false, 0.5};
  pairs.bias = [&](int b, int h, int i, int j) { return run.in("bias")(b / 3, h, i, j); };
  expect_attention(run, pairs);
  OpRun keys("attention:batch=2,m=3,n=3,d=4,bias=batch+n");
  Shape masks{2, 1, 1, 3, 3, 4, 4, false, 0.5};
  masks.bias = [&](int b, int, int, int j) { return keys.in("bias")(b, j); };
  expect_attention(keys, masks);
}

TEST(Attention, CachesHoldCodes) {
  OpRun run("attention:heads=4,kv_heads=2,m=3,n=5,d=8,dv=6,kv.dtype=i8,kv.group=4,kv.scale=f16");
  Shape shape{1, 4, 2, 3, 5, 8, 6, false, 1 / std::sqrt(8.0)};
  shape.group = 4;
  expect_attention(run, shape);

  OpRun paged("attention:batch=2,m=1,n=6,d=4,page=3,pages=3,kv.dtype=u4,kv.zero=u4");
  Shape pages{2, 1, 1, 1, 6, 4, 4, false, 0.5, {}, {}, 3};
  pages.group = 4;
  for (int p = 0; p < 4; ++p) paged.in("T")(p / 2, p % 2) = p % 3;
  expect_attention(paged, pages);
}

TEST(Attention, LengthsOfADynamicCache) {
  OpRun run("attention:batch=1..4,heads=2,m=1,n=1..16,d=4,causal=true,lengths=keys",
            {{"batch", 3}, {"n", 9}});
  const Shape shape{3, 2, 2, 1, 9, 4, 4, true, 0.5, {1, 9, 4}};
  set_lengths(run, shape);
  expect_attention(run, shape);
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

// Operations per query-key pair: 2 d and 2 dv for the products, then scale, maximum, difference,
// sum. Masked pairs count nothing; operations per row or result element count as they are.
TEST(Attention, CountsTheScoresThatAreSeen) {
  auto flops = [](const std::string& spec) { return make_workload(parse_spec(spec)).flops; };
  const double pair = 2 * 4 + 2 * 6 + 4, result = 6;
  EXPECT_EQ(flops("attention:heads=3,m=5,n=8,d=4,dv=6"), 3 * 5 * (8 * pair + result));
  EXPECT_DOUBLE_EQ(flops("attention:heads=3,m=5,n=8,d=4,dv=6,causal=true"),
                   3 * ((4 + 5 + 6 + 7 + 8) * pair + 5 * result));
  EXPECT_DOUBLE_EQ(flops("attention:heads=3,m=1..5,n=8,d=4,dv=6,causal=true"),
                   3 * ((4 + 5 + 6 + 7 + 8) * pair + 5 * result));
}

TEST(Attention, CountsTheScoresInAWindow) {
  auto flops = [](const std::string& spec) { return make_workload(parse_spec(spec)).flops; };
  const double pair = 2 * 4 + 2 * 4 + 4, result = 4;
  EXPECT_DOUBLE_EQ(flops("attention:m=5,n=8,d=4,causal=true,window=6"),
                   (4 + 5 + 6 + 6 + 6) * pair + 5 * result);
  EXPECT_DOUBLE_EQ(flops("attention:m=5,n=5,d=4,window=2"),
                   (2 + 3 + 3 + 3 + 2) * pair + 5 * result);
  EXPECT_DOUBLE_EQ(flops("attention:m=7,n=4,d=4,window=2"),
                   (0 + 0 + 1 + 2 + 3 + 3 + 2) * pair + 7 * result);
}

// `none` has the same meaning as a spec without the key, for databases too.
TEST(Attention, NoLengthsAreNoPartOfTheMeaning) {
  EXPECT_EQ(canonical_text(parse_spec("attention:m=4,n=4,d=8,lengths=none")),
            canonical_text(parse_spec("attention:m=4,n=4,d=8")));
  EXPECT_EQ(canonical_text(
                parse_spec("attention:m=4,n=4,d=8,alibi=false,sinks=false,bias_shared=1,bias=[]")),
            canonical_text(parse_spec("attention:m=4,n=4,d=8")));
  EXPECT_THAT(canonical_text(parse_spec("attention:m=4,n=4,d=8,lengths=both")),
              HasSubstr(R"("lengths":"both")"));
}

void expect_refused_ops_attention(const std::string& spec, const std::string& message) {
  try {
    parse_spec(spec);
    ADD_FAILURE() << spec << " was not refused";
  } catch (const SpecError& e) {
    EXPECT_THAT(e.what(), HasSubstr(message));
  }
}

TEST(Attention, Refuses) {
  expect_refused_ops_attention("attention:heads=6,kv_heads=4,m=2,n=2,d=4",
                               "expected a divisor of heads=6, got 4");
  expect_refused_ops_attention("attention:m=5,n=4,d=4,causal=true",
                               "n must not be below m; got m=5 and n=4");
  expect_refused_ops_attention("attention:m=1..5,n=4..9,d=4,causal=true",
                               "n must not be below m; got m=1..5 and n=4..9");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,lengths=queries",
                               "lengths: expected one of none, keys, both, got 'queries'");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,page=16",
                               "a paged cache has both: keys of a page, and");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,pages=16", "such as page=16,pages=256");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,window=1",
                               "window: expected a whole number from 2 to");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,softcap=0",
                               "softcap: expected a positive number");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,bias=heads+rows",
                               "bias: expected one of batch, heads, m, n, got 'rows'");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,bias=n+n", "the axis 'n' is given twice");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,bias=heads+m", "such as bias=heads+m+n");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,bias=m+n,bias_shared=2",
                               "belongs to a bias with the axis batch");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,kv.group=4",
                               "belongs to a cache of few bits; give kv.dtype");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,kv.dtype=i8,kv.group=0",
                               "or -1 for one group per key, got 0");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,kv.dtype=i8,kv.group=2,kv.scale=none",
                               "there are neither scales nor zero points to share");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,kv.dtype=f8e4m3,kv.zero=u8",
                               "kv.zero: f8e4m3 codes have no zero point");
  expect_refused_ops_attention("attention:m=2,n=2", "attention needs the key d");
  expect_refused_ops_attention("attention:m=2,n=2,d=4,dtype=i8",
                               "expected one of f64, f32, f16, bf16, got");
}

}  // namespace
}  // namespace tilewright
