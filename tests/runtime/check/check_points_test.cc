#include "runtime/check/check_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ir/ops/spec.h"

namespace tilewright {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

Workload workload(const std::string& spec) { return make_workload(parse_spec(spec)); }

std::vector<int64_t> sizes(const std::string& spec, const SizeFacts& facts,
                           const CheckBudget& budget = {}) {
  std::vector<int64_t> list;
  for (const auto& point : check_points(workload(spec), facts, budget)) {
    list.push_back(point.at("m"));
  }
  return list;
}

const char* const kCheckPointsSpec = "matmul:m=1..4096,n=64,k=64";

TEST(CheckPoints, LieAtMultiplesOfTheTilesAndBesideThem) {
  const SizeFacts facts{.steps = {{{7, 7}, {28, 28}}}};
  const std::vector<int64_t> list = sizes(kCheckPointsSpec, facts);
  EXPECT_THAT(list, IsSupersetOf({1, 2, 6, 7, 8, 13, 14, 21, 27, 28, 29, 55, 56, 4095}));
  EXPECT_THAT(list, Contains(35)) << "a whole outer tile and an inner one";
  EXPECT_THAT(list, Contains(4095 / 7 * 7)) << "the last whole tile";
  EXPECT_THAT(list, Contains(97)) << "a prime";
  EXPECT_LE(list.size(), kMostCheckPoints);
  EXPECT_EQ(std::set<int64_t>(list.begin(), list.end()).size(), list.size());
}

// A tail of each length may have code of its own.
TEST(CheckPoints, LieAtEachTailOfATileOfFewRows) {
  const SizeFacts facts{.steps = {{{12, 12}, {48, 48}}}};
  const std::vector<int64_t> list = sizes(kCheckPointsSpec, facts);
  for (int64_t left = 1; left < 12; ++left) EXPECT_THAT(list, Contains(left));
  EXPECT_THAT(sizes(kCheckPointsSpec, facts, {.has_tails = false}), Not(Contains(5)));
}

// Code of a tail may run only behind whole tiles.
TEST(CheckPoints, LieAtEachTailBehindATile) {
  const SizeFacts facts{.steps = {{{12, 12}, {36, 36}}}};
  const std::vector<int64_t> list = sizes(kCheckPointsSpec, facts);
  for (int64_t left = 1; left < 12; ++left) EXPECT_THAT(list, Contains(12 + left));
}

// There arrays may end where a protected page begins, behind a partial vector.
TEST(CheckPoints, LieAtPartsOfATile) {
  const SizeFacts facts{.steps = {{{32, 32}}}};
  EXPECT_THAT(sizes("matmul:m=1..50,n=64,k=20", facts), IsSupersetOf({16, 24, 48}));
}

// A range that holds a tile only once compares sizes with its rows, and has no step.
TEST(CheckPoints, LieAtEachTailOfATileThatFitsOnce) {
  const SizeFacts facts{.steps = {{{0, 20}}}};
  const std::vector<int64_t> list = sizes("matmul:m=1..39,n=64,k=64", facts);
  for (int64_t left = 1; left < 20; ++left) EXPECT_THAT(list, Contains(left));
}

TEST(CheckPoints, AreAllSizesOfAShortRange) {
  const std::vector<int64_t> list = sizes("matmul:m=3..20,n=64,k=64", {.steps = {{{4, 4}}}});
  for (int64_t size = 3; size < 20; ++size) EXPECT_THAT(list, Contains(size));
  EXPECT_EQ(sizes("matmul:m=1..50,n=64,k=20", {.steps = {{}}}).size(), 49u) << "and the largest";
}

TEST(CheckPoints, OfWhichFewAreAskedForAreTheInnermostAndTheOutermostTile) {
  const SizeFacts facts{.steps = {{{4, 4}, {8, 8}, {32, 32}}}};
  EXPECT_THAT(sizes(kCheckPointsSpec, facts, {.most_points = 6, .has_tails = false}),
              ::testing::ElementsAre(1, 3, 4, 31, 32, 4095));
}

// A step that counts whole tiles and a tail says the size at which the next one begins.
TEST(CheckPoints, LieAtMultiplesWhereStepsBeginBehindThem) {
  EXPECT_THAT(sizes(kCheckPointsSpec, {.steps = {{{7, 8}}}}), IsSupersetOf({6, 7, 8, 9, 14, 15}));
}

TEST(CheckPoints, StayInsideTheRange) {
  for (int64_t size : sizes("matmul:m=5..20,n=64,k=64", {.steps = {{{7, 7}, {40, 40}}}})) {
    EXPECT_GE(size, 5);
    EXPECT_LT(size, 20) << "the largest is where a kernel is timed";
  }
  EXPECT_THAT(sizes("matmul:m=5..20,n=64,k=64", {.steps = {{{7, 7}}}}),
              IsSupersetOf({5, 6, 7, 8, 13, 14, 19}));
}

// Descriptions that earlier versions wrote, and kernels that have no tiles.
TEST(CheckPoints, OfUnknownKernelsLieAtUsualTiles) {
  const std::vector<int64_t> list = sizes(kCheckPointsSpec, {});
  EXPECT_THAT(list, IsSupersetOf({1, 6, 7, 8, 15, 16, 17, 4095}));
  EXPECT_EQ(sizes(kCheckPointsSpec, {.steps = {{}}}), list);
  EXPECT_EQ(sizes(kCheckPointsSpec, {.steps = {{}, {}}}), list)
      << "of another number of dimensions";
}

// A damaged database is no reason to look at sizes that do not exist.
TEST(CheckPoints, TakeNoStepForGranted) {
  const int64_t most = INT64_MAX;
  const SizeFacts facts{.steps = {{{most, 3}, {-4, 9}, {3, most}, {0, -1}, {0, 5}}}};
  const std::vector<int64_t> list = sizes("matmul:m=1..20,n=64,k=64", facts);
  EXPECT_THAT(list, IsSupersetOf({2, 3, 4, 5, 19}));
  for (int64_t size : list) EXPECT_TRUE(size >= 1 && size < 20) << size;
}

TEST(CheckPoints, AreFewerWhereOneTakesLong) {
  const SizeFacts facts{.steps = {{{1000, 1000}}}};
  const std::vector<int64_t> all = sizes("matmul:m=1..4096,n=64,k=64", facts, {.times = 100});
  const std::vector<int64_t> few =
      sizes("matmul:m=1..4096,n=64,k=64", facts, {.times = 2, .seconds = 0, .least_points = 4});
  EXPECT_LT(few.size(), all.size());
  EXPECT_GE(few.size(), 4u);
  EXPECT_THAT(few, IsSupersetOf({1, 999, 1000}));
}

TEST(CheckPoints, OfSeveralDimensionsMeetEachOther) {
  const Workload w = workload("matmul:m=1..512,n=1..512,k=64");
  const SizeFacts facts{.steps = {{{7, 7}}, {{16, 16}}}};
  std::set<int64_t> m, n;
  std::set<std::pair<bool, bool>> whole;  // whether m and n are whole tiles
  const auto points = check_points(w, facts);
  for (const auto& p : points) {
    m.insert(p.at("m"));
    n.insert(p.at("n"));
    whole.insert({p.at("m") % 7 == 0, p.at("n") % 16 == 0});
  }
  EXPECT_LE(points.size(), 2 * kMostCheckPoints);
  EXPECT_EQ(std::set(points.begin(), points.end()).size(), points.size());
  EXPECT_THAT(m, IsSupersetOf({1, 6, 7, 8, 511}));
  EXPECT_THAT(n, IsSupersetOf({1, 15, 16, 17, 511}));
  EXPECT_EQ(whole.size(), 4u) << "each of whole tiles and tails meets both of the other's";
  EXPECT_THAT(points, Not(Contains(largest_sizes(w))));
}

TEST(CheckPoints, NoneWithoutRanges) {
  EXPECT_THAT(check_points(workload("matmul:m=8,n=64,k=64")), IsEmpty());
}

}  // namespace
}  // namespace tilewright
