#include "runtime/check/check_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ir/ops/spec.h"
#include "runtime/check/same_rows.h"

namespace tilewright {
namespace {

using Dims = CheckData::Dims;

constexpr int kSamples = 4096;

Workload workload_of(const std::string& spec) { return make_workload(parse_spec(spec)); }

bool apart(const std::string& spec) { return rows_are_apart(workload_of(spec)); }

TEST(RowsAreApart, WhereTheDimensionIsTheOutermostOneEverywhere) {
  EXPECT_TRUE(apart("matmul:m=1..40,n=40,k=24"));
  EXPECT_TRUE(apart("matmul:m=1..12,n=32,k=64,w.dtype=u4,w.group=16,w.zero=u4"));
  EXPECT_TRUE(apart("gated_mlp:m=1..9,n=24,k=20"));
  EXPECT_TRUE(apart("softmax:m=1..20,n=24"));
}

TEST(RowsAreApart, UnlessAnotherAxisOrTheValueDependsOnIt) {
  EXPECT_FALSE(apart("matmul:m=6,n=1..50,k=20")) << "the innermost one";
  EXPECT_FALSE(apart("matmul:m=6,n=8,k=1..20")) << "summed over";
  EXPECT_FALSE(apart("conv1d:n=1,l=8..40,ci=4,co=8,kernel=3,pad=1")) << "padding begins behind it";
  EXPECT_FALSE(apart("attention:heads=2,m=1..20,n=20..40,d=16,causal=true")) << "two of them";
  EXPECT_FALSE(apart("matmul:m=6,n=8,k=20")) << "none";
}

// The right values at fewer rows are how those at all rows begin, where they are taken from there.
class RightValues : public ::testing::TestWithParam<const char*> {};

TEST_P(RightValues, AreThoseOfAnOracleAtThatSize) {
  const Workload w = workload_of(GetParam());
  const std::string dim = w.dims[0].var.name();
  CheckData data(w, {{dim, w.dims[0].max}}, 5);
  ThreadPool pool(1);
  for (const int64_t size : {w.dims[0].min, w.dims[0].max - 1, w.dims[0].max}) {
    for (const ValueKind kind : {ValueKind::Ordinary, ValueKind::Hard}) {
      const Dims dims{{dim, size}};
      const Reference& found = data.right(dims, kind, kSamples, pool);
      OperandSet& set = kind == ValueKind::Hard ? data.hard(dims) : data.fenced(dims);
      const Reference direct = reference_of(oracle_on(w, set, dims), set.output(), {}, 5);
      ASSERT_EQ(found.values.size(), direct.values.size());
      for (size_t i = 0; i < direct.values.size(); ++i) {
        const Expected &a = found.values[i], &b = direct.values[i];
        if (std::isnan(b.value)) {
          ASSERT_TRUE(std::isnan(a.value)) << i;
          continue;
        }
        ASSERT_EQ(a.value, b.value) << i << " at " << size;
        ASSERT_EQ(a.bound, b.bound) << i << " at " << size;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, RightValues,
    ::testing::Values("matmul:m=1..40,n=40,k=24",
                      "matmul:m=1..12,n=32,k=64,w.dtype=u4,w.group=16,w.zero=u4",
                      "matmul:m=2..9,n=48,k=64,w.sparse=2:4", "matmul:m=6,n=2..50,k=20",
                      "softmax:m=1..20,n=24", "conv1d:n=1,l=8..40,ci=4,co=8,kernel=3,pad=1",
                      "gated_mlp:m=1..9,n=24,k=20,act=relu"));

// Replay's first sizes may be smaller than those that it checks besides.
TEST(CheckData, RightValuesAtMoreRowsThanTheFirstSizesAreComputed) {
  const Workload w = workload_of("matmul:m=1..40,n=24,k=16");
  const std::string dim = w.dims[0].var.name();
  CheckData data(w, {{dim, 5}}, 5);
  ThreadPool pool(1);
  EXPECT_EQ(data.right({{dim, 40}}, ValueKind::Hard, kSamples, pool).values.size(), 40U * 24);
  EXPECT_EQ(data.right({{dim, 3}}, ValueKind::Hard, kSamples, pool).values.size(), 3U * 24);
}

// A wrong kernel has the changed set restored, whose weights are those of the hard one.
TEST(CheckData, RestoringTheChangedSetKeepsTheWeightsThatItBorrows) {
  CheckData data(workload_of("matmul:m=4,n=8,k=8"), {}, 5);
  data.changed().restore();
  EXPECT_FALSE(data.hard({}).changed_input());
}

// One draw reaches the last tile of each row with values of like size.
TEST(CheckData, OneDrawHasTheLongestLengthsAndOrdinaryValues) {
  CheckData data(workload_of("attention:batch=2,heads=2,m=1,n=40,d=8,lengths=keys"), {}, 5);
  int full = 0;
  for (const CheckData::Draw& draw : data.draws()) {
    if (draw.operands->kind() != ValueKind::Ordinary) continue;
    for (const OperandInfo& info : draw.operands->infos()) {
      if (!info.hard.lengths) continue;
      const HostArray& lengths = draw.operands->at(info.name);
      for (int64_t i = 0; i < lengths.count(); ++i) EXPECT_EQ(lengths.get(i), 40);
      ++full;
    }
  }
  EXPECT_EQ(full, 1);
}

TEST(CheckData, KeepsThePlacesOfTheFirstSizes) {
  CheckData data(workload_of("matmul:m=1..400,n=8,k=8"), {{"m", 400}}, 1);
  const OperandSet* first = &data.timed({{"m", 400}});
  const void* const place = data.timed({{"m", 400}}).at("A").data();
  // Each array has fences of some megabytes, so that all of these are more than a worker can spare.
  for (int64_t m = 1; m < 120; ++m) {
    data.fenced({{"m", m}});
    data.keep_within_limits();
  }
  EXPECT_EQ(&data.timed({{"m", 400}}), first);
  EXPECT_EQ(data.timed({{"m", 400}}).at("A").data(), place);
}

// Candidates ask for their sizes in turn, in one order, and all of them together are too many.
TEST(CheckData, KeepsSomeSizesThroughTurnsThatDoNotFit) {
  CheckData data(workload_of("matmul:m=1..400,n=8,k=8"), {{"m", 400}}, 1);
  data.fenced({{"m", 400}});
  std::vector<Dims> first_kept;
  for (int turn = 0; turn < 3; ++turn) {
    for (int64_t m = 1; m < 300; ++m) {
      data.fenced({{"m", m}});
      data.keep_within_limits();
    }
    const std::vector<Dims> kept = data.sizes_kept();
    EXPECT_LT(kept.size(), 150u);
    EXPECT_GT(kept.size(), 50u);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), Dims{{"m", 400}}), 1);
    if (turn == 0) first_kept = kept;
    EXPECT_EQ(kept, first_kept);
  }
}

TEST(CheckData, ForgetsSizesThatWereAskedForTheFewestTimes) {
  CheckData data(workload_of("matmul:m=1..400,n=8,k=8"), {{"m", 400}}, 1);
  data.fenced({{"m", 400}});
  for (int64_t m = 1; m < 300; ++m) {
    data.fenced({{"m", m}});
    data.fenced({{"m", 399}});
    data.keep_within_limits();
  }
  const std::vector<Dims> kept = data.sizes_kept();
  EXPECT_EQ(std::count(kept.begin(), kept.end(), Dims{{"m", 399}}), 1);
  EXPECT_EQ(std::count(kept.begin(), kept.end(), Dims{{"m", 299}}), 0);
}

}  // namespace
}  // namespace tilewright
