// The analytical model of CPU kernels: what it counts, and which of two kernels it prefers.
#include "tuner/cpu/cpu_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "tests/golden.h"
#include "tuner/candidate.h"
#include "tuner/cpu/cpu_traffic.h"
#include "tuner/cpu/value_facts.h"

namespace tilewright {
namespace {

// A core of 4 GHz with AVX-512, as Zen 4 has it.
CpuFacts facts_for(const Target& target) {
  CpuFacts f;
  f.core = core_of("AuthenticAMD-25-17-1", target);
  f.clock = 4e9;
  f.bandwidth = {120e9, 80e9, 20e9};
  return f;
}

class CpuModelTest : public testing::Test {
 protected:
  CpuEstimate of(const std::string& spec, const std::string& config, int threads = 1,
                 const std::string& target_name = "avx512") {
    const Workload w = make_workload(parse_spec(spec));
    const Target target = Target::parse(target_name);
    CandidateMaker maker(w, target, threads);
    const auto c = maker.make(cpu_sketches()[0], Trial::with(config));
    EXPECT_TRUE(c) << config;
    if (!c) return {};
    return estimate_cpu(c->module.main, target, threads, facts_for(target));
  }
  double seconds(const std::string& spec, const std::string& config, int threads = 1,
                 const std::string& target = "avx512") {
    return of(spec, config, threads, target).seconds;
  }
};

constexpr const char* kSquare = "matmul:m=240,n=256,k=256";

// The peak of the core bounds the time below; a tile that fills the registers comes near.
TEST_F(CpuModelTest, AFullTileIsNearThePeak) {
  const double least = 2.0 * 240 * 256 * 256 / (32 * 4e9);
  const double t = seconds(kSquare, R"({"C.vj.vectors":4,"C.vi.rows":6})");
  EXPECT_GT(t, least);
  EXPECT_LT(t, 1.25 * least);
}

TEST_F(CpuModelTest, OrdersTilesByWhatBoundsThem) {
  const double full = seconds(kSquare, R"({"C.vj.vectors":4,"C.vi.rows":6})");
  // One accumulator waits for itself: four cycles for a multiply-add that takes one.
  EXPECT_GT(seconds(kSquare, R"({"C.vj.vectors":1,"C.vi.rows":1})"), 3 * full);
  EXPECT_GT(seconds(kSquare, R"({"C.vj.vectors":1,"C.vi.rows":2})"), 1.5 * full);
  // Twelve registers of AVX2 do as many operations as 24 of AVX-512 on this core.
  EXPECT_LT(seconds(kSquare, R"({"C.vj.vectors":2,"C.vi.rows":6})", 1, "avx2"), 1.5 * full);
}

TEST_F(CpuModelTest, MoreWorkTakesLonger) {
  const std::string tile = R"({"C.vj.vectors":4,"C.vi.rows":6})";
  const double small = seconds("matmul:m=48,n=256,k=256", tile);
  EXPECT_NEAR(seconds("matmul:m=96,n=256,k=256", tile) / small, 2, 0.2);
  EXPECT_NEAR(seconds("matmul:m=48,n=256,k=512", tile) / small, 2, 0.2);
}

TEST_F(CpuModelTest, ThreadsShareTilesAndTheLastRoundCounts) {
  const std::string rows =
      R"({"C.vj.vectors":4,"C.vi.rows":6,"C.vi.s2":8,"C.vi.s1":1,"C.parallel":1})";
  const double one = seconds(kSquare, rows, 1), two = seconds(kSquare, rows, 2),
               three = seconds(kSquare, rows, 3);
  EXPECT_LT(two, 0.7 * one);
  EXPECT_GT(two, 0.45 * one);
  EXPECT_LT(three, two);
}

TEST_F(CpuModelTest, TrafficCountsWhatDoesNotFitACache) {
  const std::string tile = R"({"C.vj.vectors":4,"C.vi.rows":6})";
  const CpuEstimate small = of("matmul:m=24,n=64,k=64", tile),
                    large = of("matmul:m=24,n=4096,k=4096", tile);
  EXPECT_EQ(small.memory[1], 0);
  EXPECT_EQ(small.memory[2], 0);
  // The weight comes from memory, once.
  EXPECT_NEAR(large.memory[2], 4096.0 * 4096 * 4 / 20e9, 0.2 * large.memory[2]);
}

// The rows of B are gone when the next i comes back to them, also where one loop runs over i and j.
TEST_F(CpuModelTest, AFusedLoopComesBackAsItsLoopsDo) {
  const auto traffic = [](const std::string& loops) {
    const Program nest = parse_program(
        "program P(B: f32[1024, 64] input, C: f32[40, 1024, 64] output) {\n" + loops + "}\n");
    return traffic_of(nest, Target::parse("avx512"), 1).bytes[0];
  };
  const double nested = traffic(R"(
    for i in 0..40 {
      for j in 0..1024 {
        for k in 0..64 {
          C[i, j, k] = B[j, k]
        }
      }
    })");
  const double fused = traffic(R"(
    for f in 0..40960 {
      for k in 0..64 {
        C[floordiv(f, 1024), floormod(f, 1024), k] = B[floormod(f, 1024), k]
      }
    })");
  EXPECT_EQ(fused, nested);
}

// A paged cache costs what is read of it, however many pages it has.
TEST_F(CpuModelTest, PagesCountAsFarAsTheyAreRead) {
  const auto with_pages = [&](const char* pages) {
    return seconds(std::string("attention:batch=1,heads=8,m=1,n=256,d=64,page=16,pages=") + pages,
                   "{}");
  };
  const double few = with_pages("16");
  EXPECT_NEAR(with_pages("65536"), few, 0.1 * few);
}

// One of two values is loaded where all lanes agree on the condition.
TEST_F(CpuModelTest, ABranchLoadsOneValue) {
  const auto estimate = [&](const char* c) {
    return of(std::string("expr:expr=\"C[h, w, c] = select(c < ") + c +
                  ", A[h, w, c], B[h, w, c])\",dims.h=20,dims.w=20,dims.c=64,"
                  "shapes.A=[20,20,64]",
              R"({"C.vectors":1})");
  };
  const CpuEstimate half = estimate("32"), most = estimate("48"), inside = estimate("40");
  const auto loads = [](const CpuEstimate& e) { return e.cycles.passes.load; };
  EXPECT_NEAR(loads(half), loads(most), 0.01 * loads(half)) << "one of the two each time";
  EXPECT_GT(loads(inside), 1.1 * loads(half)) << "lanes that differ need both";
  EXPECT_LT(most.compute, half.compute) << "a condition that mostly holds is mispredicted less";
}

// Rows of a weight that lie a page apart need an address each, for each tile of rows; packed tiles do not.
TEST_F(CpuModelTest, RowsInPagesOfTheirOwnWaitForAddresses) {
  const std::string spec = "matmul:m=64,n=2048,k=512";
  const CpuEstimate apart = of(spec, R"({"C.vj.vectors":2,"C.vi.rows":8,"C.B":"none"})"),
                    tiles = of(spec, R"({"C.vj.vectors":2,"C.vi.rows":8,"C.B":"tiles"})");
  EXPECT_GT(apart.translation, 0.05 * apart.compute);
  EXPECT_LT(tiles.translation, 0.1 * apart.translation);
}

// Each element of a column has a page of its own, and no load waits for another.
TEST_F(CpuModelTest, IndependentLoadsOverlapTheirAddresses) {
  const CpuEstimate e =
      of(R"(expr:expr="C[i, j] = A[j, i]",dims.i=1008,dims.j=1000)", R"({"C.order":"rows"})");
  EXPECT_GT(e.translation, e.compute);
  EXPECT_LT(e.seconds, e.compute + e.translation);
}

// Keys of 64 floats lie 256 bytes apart: a column of them has a quarter of the sets. 128 lines fill their eight
// ways, 256 lines come anew from L2 for each term, although their bytes fit.
TEST_F(CpuModelTest, LinesAPowerOfTwoApartShareSets) {
  const std::string two = R"({"S_max.softmax":"apart","S.vj.vectors":4,"S.vh.rows":2})";
  const std::string four = R"({"S_max.softmax":"apart","S.vj.vectors":4,"S.vh.rows":4})";
  const CpuEstimate fits = of("attention:batch=1,heads=4,m=1,n=128,d=64", two);
  const CpuEstimate crowded = of("attention:batch=1,heads=4,m=1,n=128,d=64", four);
  const CpuEstimate spread = of("attention:batch=1,heads=4,m=1,n=128,d=72", four);
  EXPECT_GT(crowded.memory[0], 4 * fits.memory[0]);
  EXPECT_GT(crowded.memory[0], 4 * spread.memory[0]);
}

// Words of codes serve all positions: their load and a shift are less than loads of neighbouring codes.
TEST_F(CpuModelTest, CodesInWordsCostLessToDecode) {
  const std::string spec =
      "matmul:m=1,n=512,k=1024,dtype=bf16,out=f32,w.dtype=nf4,w.group=64,w.scale=f16";
  const std::string rest = R"("C.scales":"sums","C.vj.vectors":4,"C.vk.unroll":8,"C.B":)";
  const CpuEstimate words = of(spec, "{" + rest + R"("words"})"),
                    tiles = of(spec, "{" + rest + R"("tiles"})");
  EXPECT_LT(words.compute, 0.85 * tiles.compute);
}

// Two codes of a byte are a shift and two instructions of masks and signs. They stay in registers, as the sums of a group
// do that scales multiply.
TEST_F(CpuModelTest, BytesOfCodesCostAMaskAndAShift) {
  Target target = Target::parse("avx512");
  target.features.insert("avx512vnni");
  const Workload w = make_workload(
      parse_spec("matmul:m=2,n=424,k=320,dtype=i8,out=f32,w.dtype=i4,w.group=32,w.scale=f16"));
  CandidateMaker maker(w, target, 1);
  const auto c = maker.make(
      cpu_sketches()[0],
      Trial::mutate(
          R"({"C.scales":"sums","C.intrinsic":"avx512.vpdpbusd_lanes","C.v1.vectors":3,)"
          R"("C.v0.rows":2,"C.B_pad_u8":"registers","C.v1.s2":1,"C.v1.s1":1,"C.v2.chunk":8,)"
          R"("C.v2.unroll":2,"C.outer_order":"spatial","C.inner_order":"reversed",)"
          R"("C.parallel":1,"C.B_pad_u8.at":"step","C_sum.partials":16})",
          0, 0));
  ASSERT_TRUE(c);
  ASSERT_NE(c->config.find("registers"), std::string::npos) << c->config;
  const CpuPasses passes = estimate_cpu(c->module.main, target, 1, facts_for(target)).cycles.passes;
  EXPECT_LT(passes.vector, 2 * passes.multiply);
  EXPECT_LT(passes.store, 0.25 * passes.multiply);
}

// A padded term that is left out costs nothing.
TEST_F(CpuModelTest, PaddingReadInPlaceSavesItsTerms) {
  const std::string spec = "conv2d:n=1,h=8,w=8,ci=64,co=64,kernel=5,pad=2";
  const CpuEstimate padded = of(spec, R"({".X_pad":"root"})"),
                    in_place = of(spec, R"({".X_pad":"inline"})");
  EXPECT_LT(in_place.compute, 0.9 * padded.compute);
}

// Tiles that overhang take the loads and the sums of the part that they hold: 10 of 12 rows by 9 of 16 vectors.
TEST_F(CpuModelTest, GuardedTilesAreCountedExactly) {
  const CpuEstimate e =
      of("matmul:m=10,n=144,k=64", R"({"C.vj.vectors":2,"C.vi.rows":2,"C.vi.s2":3,"C.vj.s2":4})");
  const double sums = 10.0 * 9 * 64;
  EXPECT_NEAR(e.cycles.passes.multiply, sums * 2, 0.02 * sums);
}

TEST_F(CpuModelTest, RefusesWhatLoweringRefuses) {
  const Workload w = make_workload(parse_spec(kSquare));
  Schedule s(lower(w));
  const Block block = s.blocks()[0];
  for (const Loop& l : s.loops(block)) s.unroll(l);
  const Target target = Target::parse("avx512");
  const CpuEstimate e = estimate_cpu(s.program(), target, 1, facts_for(target));
  EXPECT_EQ(e.seconds, 0);
  EXPECT_FALSE(e.refusal.empty());
}

TEST(CpuCores, FollowTheChipAndTheWidth) {
  EXPECT_EQ(core_of("AuthenticAMD-25-17-1", Target::parse("avx512")).f32_per_cycle(), 32);
  EXPECT_EQ(core_of("AuthenticAMD-26-2-1", Target::parse("avx512")).f32_per_cycle(), 64);
  EXPECT_EQ(core_of("GenuineIntel-6-207-2", Target::parse("avx512")).f32_per_cycle(), 64);
  EXPECT_EQ(core_of("GenuineIntel-6-207-2", Target::parse("avx2")).f32_per_cycle(), 32);
}

TEST(ValueTable, KnowsEqualSumsInAnyOrder) {
  ValueTable table;
  const Var i("i"), j("j");
  table.loop(i, 0);
  table.loop(j, 1);
  const ValueFacts a = table.of((Expr(i) * 8 + j) + 3),
                   b = table.of((Expr(j) + 1) + (Expr(i) * 4) * 2);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.constant - b.constant, 2);
  EXPECT_EQ(a.loops, 3u);
  EXPECT_NE(table.of(Expr(i) * 4 + j).hash, a.hash);
  // In a copy of an unrolled loop its variable is a number.
  const Var copy("copy");
  table.set(copy, 5);
  EXPECT_EQ(table.of(Expr(i) * 8 + copy).constant, 5);
  EXPECT_TRUE(table.of(Expr(i) * 8 + copy).unrolled);
}

// Trials that one thread of a Zen 4 core measured, seven of each workload from the fastest to the slowest
// (zen4_trials.json).
struct Judged {
  std::string spec;
  std::vector<double> measured, predicted;
};

std::vector<Judged> judge_trials() {
  std::ifstream in(test::source_dir() / "tests" / "tuner" / "cpu" / "zen4_trials.json");
  const Target target = Target::parse("avx512+avx512bf16+avx512vnni+avx512vbmi");
  std::vector<Judged> all;
  for (const nlohmann::json& j : nlohmann::json::parse(in)) {
    Judged judged{j["spec"], {}, {}};
    const Workload w = make_workload(parse_spec(judged.spec));
    CandidateMaker maker(w, target, 1);
    for (const nlohmann::json& t : j["trials"]) {
      const auto c = maker.make(cpu_sketches()[0], Trial::mutate(t["config"].dump(), 0, 0));
      EXPECT_TRUE(c) << judged.spec;
      if (!c) continue;
      judged.measured.push_back(t["seconds"]);
      judged.predicted.push_back(
          estimate_cpu(c->module.main, target, 1, facts_for(target)).seconds);
    }
    all.push_back(std::move(judged));
  }
  return all;
}

// The share of pairs, at least 1.5 times apart, that stand in the measured order.
double pairs_in_order(const Judged& j) {
  double right = 0, pairs = 0;
  for (size_t a = 0; a < j.measured.size(); ++a) {
    for (size_t b = a + 1; b < j.measured.size(); ++b) {
      if (j.measured[b] < 1.5 * j.measured[a]) continue;
      ++pairs;
      right += j.predicted[a] < j.predicted[b];
    }
  }
  return pairs == 0 ? 1 : right / pairs;
}

TEST(CpuModelTrials, AreJudgedAsTheyWereMeasured) {
  double shares = 0, order = 0, count = 0;
  for (const Judged& j : judge_trials()) {
    ASSERT_FALSE(j.measured.empty());
    const auto chosen =
        std::min_element(j.predicted.begin(), j.predicted.end()) - j.predicted.begin();
    const double share = *std::min_element(j.measured.begin(), j.measured.end()) /
                         j.measured[static_cast<size_t>(chosen)];
    EXPECT_GT(share, 0.6) << j.spec;
    EXPECT_GT(j.predicted[0], j.measured[0] / 2) << j.spec;
    EXPECT_LT(j.predicted[0], 4 * j.measured[0]) << j.spec;
    shares += std::log(share);
    order += pairs_in_order(j);
    ++count;
  }
  EXPECT_GT(std::exp(shares / count), 0.9);
  EXPECT_GT(order / count, 0.8);
}

}  // namespace
}  // namespace tilewright
