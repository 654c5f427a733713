// Dispatch tables, learned from made-up times.
#include "tuner/search/dispatch.h"

#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "ir/ops/spec.h"
#include "tuner/search/dispatch_ranges.h"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// The sizes of a one-dimensional plan.
std::vector<int64_t> flat(const std::vector<SizeVector>& sizes) {
  std::vector<int64_t> list;
  for (const SizeVector& size : sizes) list.push_back(size.at(0));
  return list;
}

TEST(SizePlan, HasEndsPowersOfTwoAndSizesBetween) {
  const SizePlan plan = *plan_sizes(parse_workload("matmul:m=1..64,n=8,k=8"));
  EXPECT_THAT(plan.dims, ElementsAre("m"));
  EXPECT_THAT(flat(plan.tuned), ElementsAre(1, 4, 8, 32, 64));
  EXPECT_THAT(flat(plan.learnt), ElementsAre(1, 2, 3, 4, 5, 8, 11, 16, 23, 32, 45, 64));
  EXPECT_THAT(flat(plan.held_out), ElementsAre(7, 9, 13, 19, 27, 37, 53));
}

TEST(SizePlan, IsBoundedWhateverTheRanges) {
  for (const char* sizes :
       {"m=1..2,n=8", "m=1..3,n=8", "m=7..9,n=8", "m=100..101,n=8", "m=1..4096,n=8",
        "m=5..100000,n=8", "m=3..2147483647,n=8", "m=1..64,n=1..512", "m=1..2,n=1..4096",
        "m=1..2,n=7..8", "m=1..64,n=1..512,batch=1..8", "m=1..64,n=1..512,batch=1..2"}) {
    SCOPED_TRACE(sizes);
    const Workload workload = parse_workload("matmul:k=8," + std::string(sizes));
    const SizePlan plan = *plan_sizes(workload);
    const size_t dims = workload.dims.size();
    EXPECT_LE(plan.tuned.size(), SizePlan::most_tuned(dims));
    EXPECT_LE(plan.learnt.size(), SizePlan::most_learnt(dims));
    for (const auto* list : {&plan.tuned, &plan.learnt}) {
      EXPECT_TRUE(std::is_sorted(list->begin(), list->end(), std::less_equal<>()));
      EXPECT_EQ(list->front(), plan.min);
      EXPECT_EQ(list->back(), plan.max);
    }
    for (const SizeVector& size : plan.held_out) {
      EXPECT_FALSE(std::binary_search(plan.learnt.begin(), plan.learnt.end(), size));
      EXPECT_TRUE((KernelRange{plan.min, plan.max, 0}.holds(size)));
      EXPECT_NE(size, plan.max);
    }
  }
}

TEST(SizePlan, OfSeveralDimensionsIsAGrid) {
  const SizePlan plan = *plan_sizes(parse_workload("matmul:m=1..64,n=1..512,k=80"));
  EXPECT_THAT(plan.dims, ElementsAre("m", "n"));
  EXPECT_EQ(plan.learnt.size(), 25u);
  EXPECT_EQ(plan.held_out.size(), 16u) << "one in the middle of each cell";
  EXPECT_THAT(plan.tuned, ElementsAre(ElementsAre(1, 1), ElementsAre(1, 512), ElementsAre(11, 32),
                                      ElementsAre(64, 1), ElementsAre(64, 512)));
  EXPECT_THAT(plan.at(plan.tuned[1]),
              testing::UnorderedElementsAre(testing::Pair("m", 1), testing::Pair("n", 512)));
}

TEST(SizePlan, IsForAFewDynamicDimensions) {
  EXPECT_FALSE(plan_sizes(parse_workload("matmul:m=4,n=8,k=8")));
  EXPECT_TRUE(plan_sizes(parse_workload("matmul:m=1..4,n=1..8,k=1..8,batch=1..3")));
  EXPECT_FALSE(plan_sizes(parse_workload(
      "expr:expr=\"C[a,b,c,d,e] = A[a,b,c,d,e] + 1\",dims.a=1..2,dims.b=1..2,dims.c=1..2,"
      "dims.d=1..2,dims.e=1..2")));
}

TEST(DispatchRanges, PutsEachKernelWhereItIsFastest) {
  const SizeTimes times = {
      {{1}, {4}, {16}, {64}}, {{1, 2, 9, 40}, {3, 2.5, 4, 10}}, {9, 9, 90, 90}};
  EXPECT_THAT(learn_ranges(times, {1}, {64}, 8),
              ElementsAre(KernelRange{{1}, {8}, 0}, KernelRange{{9}, {64}, 1}));
}

TEST(DispatchRanges, WithOneRangeTakesTheLeastSumOfSlowdowns) {
  const SizeTimes times = {{{1}, {8}, {64}}, {{1, 1, 3}, {1.5, 1.2, 1}, {2, 2, 1}}, {9, 9, 9}};
  EXPECT_THAT(learn_ranges(times, {1}, {64}, 1), ElementsAre(KernelRange{{1}, {64}, 1}));
  EXPECT_NEAR(total_slowdown(times, {{{1}, {64}, 1}}), 0.5 + 0.2, 1e-12);
}

TEST(DispatchRanges, ARangeMoreMustWinMoreThanTheNoise) {
  SizeTimes times = {{{1}, {8}, {64}}, {{1, 1, 1.01}, {1.01, 1, 1}}, {9, 9, 9}};
  EXPECT_EQ(learn_ranges(times, {1}, {64}, 8).size(), 1u);
  times.seconds[0][2] = 1.1;
  times.seconds[1][0] = 1.1;
  EXPECT_EQ(learn_ranges(times, {1}, {64}, 8).size(), 2u);
}

TEST(DispatchRanges, NoKernelStandsWhereItLosesToTheUntunedOne) {
  // Kernel 0 alone would have the least sum. At 8 it is slower than the untuned kernel, which takes
  // 2.
  const SizeTimes times = {{{1}, {8}, {64}}, {{1, 3, 1}, {5, 2, 5}, {9, 2.5, 9}}, {9, 2.5, 9}};
  EXPECT_THAT(
      learn_ranges(times, {1}, {64}, 3),
      ElementsAre(KernelRange{{1}, {2}, 0}, KernelRange{{3}, {22}, 1}, KernelRange{{23}, {64}, 0}));
  EXPECT_THAT(learn_ranges(times, {1}, {64}, 1), ElementsAre(KernelRange{{1}, {64}, 1}))
      << "kernel 0 must not stand at 8";
}

TEST(DispatchRanges, OfSeveralDimensionsAreCutsThroughTheWholeOfWhatIsLeft) {
  // Kernel 0 for small m; otherwise kernel 1 for small n and kernel 2 for large n.
  SizeTimes times;
  times.seconds.resize(3);
  for (int64_t m : {1, 8, 64}) {
    for (int64_t n : {1, 8, 64}) {
      times.sizes.push_back({m, n});
      times.untuned.push_back(9);
      const size_t best = m == 1 ? 0 : n < 64 ? 1 : 2;
      for (size_t k = 0; k < 3; ++k) times.seconds[k].push_back(k == best ? 1 : 2);
    }
  }
  EXPECT_THAT(learn_ranges(times, {1, 1}, {64, 64}, 8),
              ElementsAre(KernelRange{{1, 1}, {2, 64}, 0}, KernelRange{{3, 1}, {64, 22}, 1},
                          KernelRange{{3, 23}, {64, 64}, 2}));
}

TEST(DispatchRanges, AreEmptyWhenNothingCoversAllSizes) {
  const SizeTimes times = {{{1}, {8}}, {{1, 0}, {0, 1}}, {0, 0}};
  EXPECT_THAT(learn_ranges(times, {1}, {8}, 1), IsEmpty());
  EXPECT_EQ(learn_ranges(times, {1}, {8}, 2).size(), 2u);
}

// Kernels whose time at a size is a formula.
class LearnDispatch : public testing::Test {
 protected:
  using Formula = std::function<double(const SizeVector&)>;

  // A formula of one dimension.
  static Formula of_one(std::function<double(int64_t)> seconds) {
    return [seconds](const SizeVector& size) { return seconds(size.at(0)); };
  }
  void add(const std::string& id, std::function<double(int64_t)> seconds,
           const std::string& rows = "") {
    add_of_all(id, of_one(std::move(seconds)), rows);
  }
  void add_of_all(const std::string& id, Formula seconds, const std::string& rows = "") {
    Finalist f;
    f.record.id = id;
    f.record.workload_hash = "w";
    f.record.target.hash = "t";
    f.record.is_default = id == "default";
    rivals_.push_back(std::move(f));
    formulas_.push_back(std::move(seconds));
    rows_.push_back(rows);
  }

  DispatchOutcome learn(const DispatchOptions& options = {}, bool bits_tell_order = true) {
    const SizeTimer timer = [&](const std::vector<size_t>& kernels,
                                const std::vector<SizeVector>& sizes, int) {
      std::optional<SizeComparison> found;
      if (cancelled_) return found;
      found.emplace();
      asked_.insert(sizes.begin(), sizes.end());
      for (size_t k : kernels) {
        found->rows.push_back(rows_[k]);
        std::vector<double>& seconds = found->seconds.emplace_back();
        for (const SizeVector& size : sizes) seconds.push_back(formulas_[k](size));
      }
      return found;
    };
    return learn_dispatch(plan_, rivals_, timer, options, bits_tell_order);
  }

  // The time of the table's kernel at a size.
  double table_seconds(const database::DispatchTable& table, const database::Sizes& sizes) const {
    const std::string& id = table.range_at(sizes)->record;
    SizeVector values;
    for (const std::string& dim : table.dims) values.push_back(sizes.at(dim));
    for (size_t k = 0; k < rivals_.size(); ++k) {
      if (rivals_[k].record.id == id) return formulas_[k](values);
    }
    ADD_FAILURE() << "no kernel " << id;
    return 0;
  }

  static std::vector<std::string> kernels_of(const database::DispatchTable& table) {
    std::vector<std::string> ids;
    for (const database::DispatchRange& r : table.ranges) ids.push_back(r.record);
    return ids;
  }

  SizePlan plan_ = *plan_sizes(parse_workload("matmul:m=1..4096,n=8,k=8"));
  std::vector<Finalist> rivals_;
  std::vector<Formula> formulas_;
  std::vector<std::string> rows_;
  std::set<SizeVector> asked_;  // sizes at which something was timed
  bool cancelled_ = false;
};

// "at m=7", in one dimension.
database::Sizes at_m(int64_t m) { return {{"m", m}}; }

TEST_F(LearnDispatch, JoinsSpecialistsAndSaysWhereItWasVerified) {
  add("default", [](int64_t m) { return 20e-6 * double(m); });
  add("small", [](int64_t m) { return 1e-6 * double(m); });
  add("large", [](int64_t m) { return 50e-6 + 0.2e-6 * double(m); });
  const DispatchOutcome outcome = learn();
  ASSERT_TRUE(outcome.table) << outcome.note;
  EXPECT_THAT(outcome.mended, IsEmpty());
  const database::DispatchTable& table = *outcome.table;
  ASSERT_EQ(table.ranges.size(), 2u);
  EXPECT_EQ(table.ranges[0].record, "small");
  EXPECT_EQ(table.ranges[0].first, at_m(1));
  EXPECT_EQ(table.ranges[1].record, "large");
  EXPECT_EQ(table.ranges[1].last, at_m(4096));
  EXPECT_NEAR(double(table.ranges[0].last.at("m")), 62, 20) << "they are equal at 62.5";
  EXPECT_EQ(table.default_record, "default");
  EXPECT_FALSE(table.one_order);
  size_t held_out = 0;
  for (const database::DispatchPoint& p : table.points) {
    held_out += p.held_out ? 1 : 0;
    EXPECT_EQ(p.seconds.count("default"), 1u) << database::to_string(p.sizes);
    EXPECT_EQ(p.seconds.at(table.range_at(p.sizes)->record), table_seconds(table, p.sizes));
  }
  EXPECT_EQ(held_out, plan_.held_out.size());
  EXPECT_EQ(table.points.size(), plan_.learnt.size() + plan_.held_out.size());
}

TEST_F(LearnDispatch, TakesAsManyKernelsAsAllowed) {
  add("default", [](int64_t m) { return 1e-3 * double(m); });
  for (int64_t at : {1, 8, 64, 512, 4096}) {
    add("at" + std::to_string(at), [at](int64_t m) {
      return 1e-6 * double(m) * (1 + std::abs(std::log2(double(m) / double(at))));
    });
  }
  EXPECT_EQ(learn().table->ranges.size(), 5u);
  EXPECT_EQ(learn({.kernels = 2}).table->ranges.size(), 2u);
  EXPECT_EQ(learn({.kernels = 1}).table->ranges.size(), 1u);
}

// A kernel that is fast at every learned size, and slow at a held-out one.
TEST_F(LearnDispatch, MendsWhereAHeldOutSizeLosesToTheDefault) {
  const int64_t trap = plan_.held_out.at(plan_.held_out.size() / 2).at(0);
  const int64_t low = trap - 1, high = trap + 1;
  add("default", [](int64_t m) { return 10e-6 * double(m); });
  add("fast", [=](int64_t m) { return (m >= low && m <= high ? 100e-6 : 1e-6) * double(m); });
  add("steady", [](int64_t m) { return 5e-6 * double(m); });
  const DispatchOutcome outcome = learn();
  ASSERT_TRUE(outcome.table) << outcome.note;
  EXPECT_THAT(outcome.mended, testing::Contains(at_m(trap)));
  EXPECT_EQ(outcome.table->range_at(at_m(trap))->record, "steady");
  EXPECT_EQ(outcome.table->range_at(at_m(1))->record, "fast");
  EXPECT_EQ(outcome.table->range_at(at_m(4096))->record, "fast");
  for (const database::DispatchPoint& p : outcome.table->points) {
    const int64_t m = p.sizes.at("m");
    EXPECT_LE(table_seconds(*outcome.table, p.sizes), 10e-6 * double(m)) << m;
    EXPECT_FALSE(m == trap && p.held_out) << "what was learnt is no longer held out";
  }
}

// Fast at the first learned sizes and slower than the untuned default everywhere else: three
// mendings do not find all of these.
TEST_F(LearnDispatch, FallsBackOnTheDefaultWhereMendingDoesNotEnd) {
  const std::set<SizeVector> learnt(plan_.learnt.begin(), plan_.learnt.end());
  add("default", [](int64_t m) { return 10e-6 * double(m); });
  add_of_all("fast", [learnt](const SizeVector& size) {
    return (learnt.contains(size) ? 1e-6 : 100e-6) * double(size[0]);
  });
  const DispatchOutcome outcome = learn({.kernels = 64});
  ASSERT_TRUE(outcome.table) << outcome.note;
  std::set<SizeVector> measured;
  for (const database::DispatchPoint& p : outcome.table->points) {
    measured.insert({p.sizes.at("m")});
    EXPECT_LE(table_seconds(*outcome.table, p.sizes), 10e-6 * double(p.sizes.at("m")))
        << database::to_string(p.sizes);
  }
  EXPECT_EQ(measured, asked_) << "what was measured is told, whether it was learnt or held out";
  // Beside every mended size, except the last ones, there is a size that verified it.
  ASSERT_FALSE(outcome.mended.empty());
  const auto mended = [&](int64_t m) {
    return std::count(outcome.mended.begin(), outcome.mended.end(), at_m(m)) > 0;
  };
  int64_t before = 1;
  bool verified = false;
  for (const database::DispatchPoint& p : outcome.table->points) {
    const int64_t m = p.sizes.at("m");
    verified |= p.held_out;
    if (p.held_out) continue;
    if (m - before >= 2 && (mended(m) || mended(before))) {
      EXPECT_TRUE(verified) << "between " << before << " and " << m;
    }
    before = m;
    verified = false;
  }
}

// In a one-order table of kernels with another order, the default must stand alone.
TEST_F(LearnDispatch, FallsBackOnTheDefaultAloneInATableOfOneOrder) {
  const std::set<SizeVector> learnt(plan_.learnt.begin(), plan_.learnt.end());
  std::map<SizeVector, int> times_asked;
  add(
      "default", [](int64_t m) { return 10e-6 * double(m); }, "in order");
  // Slow whenever it is verified, and fast when that size is learned: mending never ends.
  add_of_all(
      "fickle",
      [&](const SizeVector& size) {
        const bool first_looks = !learnt.contains(size) && times_asked[size]++ < 2;
        return (first_looks ? 100e-6 : 1e-6) * double(size[0]);
      },
      "in parts");
  const DispatchOutcome outcome = learn({.one_order = true});
  ASSERT_TRUE(outcome.table) << outcome.note;
  EXPECT_THAT(kernels_of(*outcome.table), ElementsAre("default"));
  EXPECT_TRUE(outcome.table->one_order);
  times_asked.clear();
  rows_[0] = "";
  const DispatchOutcome none = learn({.one_order = true});
  EXPECT_FALSE(none.table) << "the default keeps to no order, either";
  EXPECT_EQ(none.note, "no kernels are as fast as the untuned default at all sizes");
}

TEST_F(LearnDispatch, NeverLosesToTheDefaultWhateverTheTimes) {
  for (const char* spec : {"matmul:m=1..4096,n=8,k=8", "matmul:m=1..64,n=1..512,k=8",
                           "matmul:m=1..9,n=1..8,k=8,batch=1..4"}) {
    plan_ = *plan_sizes(parse_workload(spec));
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      rivals_.clear();
      formulas_.clear();
      rows_.clear();
      asked_.clear();
      for (const char* id : {"default", "a", "b", "c"}) {
        const uint64_t salt = seed * 977 + static_cast<unsigned char>(id[0]);
        add_of_all(id, [salt](const SizeVector& size) {
          uint64_t mixed = salt;
          for (int64_t s : size) mixed = (mixed + static_cast<uint64_t>(s)) * 0x9e3779b97f4a7c15u;
          return 1e-6 * (1 + double((mixed >> 40) % 1000) / 100);
        });
      }
      const DispatchOutcome outcome = learn();
      ASSERT_TRUE(outcome.table) << outcome.note;
      for (const database::DispatchPoint& p : outcome.table->points) {
        EXPECT_LE(table_seconds(*outcome.table, p.sizes),
                  (1 + kDispatchNoise) * p.seconds.at("default"))
            << spec << " seed " << seed << " at " << database::to_string(p.sizes);
      }
      EXPECT_EQ(outcome.table->points.size(), asked_.size());
      EXPECT_LE(outcome.table->ranges.size(), 8u);
    }
  }
}

// Two dimensions, with one kernel for each corner of the range.
TEST_F(LearnDispatch, TellsSeveralDimensionsApart) {
  plan_ = *plan_sizes(parse_workload("matmul:m=1..64,n=1..512,k=80"));
  const auto work = [](const SizeVector& s) { return 1e-6 * double(s[0] * s[1]); };
  add_of_all("default", [=](const SizeVector& s) { return 20 * work(s); });
  add_of_all("narrow", [=](const SizeVector& s) { return (s[1] < 40 ? 1 : 15) * work(s); });
  add_of_all("few rows", [=](const SizeVector& s) { return (s[0] < 9 ? 2 : 15) * work(s); });
  add_of_all("large", [=](const SizeVector& s) { return (s[0] < 9 ? 10 : 2) * work(s); });
  const DispatchOutcome outcome = learn();
  ASSERT_TRUE(outcome.table) << outcome.note;
  const database::DispatchTable& table = *outcome.table;
  EXPECT_THAT(table.dims, ElementsAre("m", "n"));
  EXPECT_EQ(table.ranges.size(), 3u);
  const auto at = [&](int64_t m, int64_t n) {
    return table.range_at({{"m", m}, {"n", n}})->record;
  };
  EXPECT_EQ(at(1, 1), "narrow");
  EXPECT_EQ(at(64, 1), "narrow");
  EXPECT_EQ(at(1, 512), "few rows");
  EXPECT_EQ(at(64, 512), "large");
  for (int64_t m = 1; m <= 64; ++m) {
    for (int64_t n = 1; n <= 512; ++n) ASSERT_NE(table.range_at({{"m", m}, {"n", n}}), nullptr);
  }
  EXPECT_EQ(learn({.kernels = 2}).table->ranges.size(), 2u);
}

TEST_F(LearnDispatch, KeepsToOneOrderOfAddition) {
  add(
      "default", [](int64_t m) { return 20e-6 * double(m); }, "in order");
  add(
      "split", [](int64_t m) { return 1e-6 * double(m); }, "in parts");
  add(
      "drifting", [](int64_t m) { return 0.1e-6 * double(m); }, "");
  add(
      "small", [](int64_t m) { return 3e-6 * double(m); }, "in order");
  add(
      "large", [](int64_t m) { return 100e-6 + 0.5e-6 * double(m); }, "in order");
  const DispatchOutcome any = learn();
  EXPECT_EQ(any.table->range_at(at_m(1))->record, "drifting");
  EXPECT_FALSE(any.table->one_order);
  const DispatchOutcome one = learn({.one_order = true});
  ASSERT_TRUE(one.table) << one.note;
  EXPECT_TRUE(one.table->one_order);
  EXPECT_THAT(kernels_of(*one.table), ElementsAre("split"));
  formulas_[1] = of_one([](int64_t m) { return 15e-6 * double(m); });
  const DispatchOutcome other = learn({.one_order = true});
  EXPECT_TRUE(other.table->one_order);
  EXPECT_THAT(kernels_of(*other.table), ElementsAre("small", "large"));
  const DispatchOutcome narrow = learn({.one_order = true}, false);
  EXPECT_EQ(narrow.table->ranges.size(), 1u) << "equal bits may be chance";
}

TEST_F(LearnDispatch, SaysWhyThereIsNoTable) {
  EXPECT_EQ(learn().note, "no candidate was valid");
  add("default", [](int64_t) { return 1e-6; });
  EXPECT_EQ(learn({.one_order = true}).note,
            "no kernel computes the same rows at all sizes; tune without --one-order");
  cancelled_ = true;
  EXPECT_EQ(learn().note, "interrupted");
  cancelled_ = false;
  formulas_[0] = of_one([](int64_t m) { return m == 1 ? 0 : 1e-6; });
  EXPECT_EQ(learn().note, "no kernel could be measured at all sizes");
}

TEST(PointFinalists, TimesAtSizesGoThroughARecord) {
  const SizePlan plan = *plan_sizes(parse_workload("matmul:m=1..64,n=8,k=8"));
  database::Record record;
  record.median_seconds = 5e-6;
  record.points = sized_times(plan, {1e-6, 2e-6, 0, 4e-6, 5e-6});
  ASSERT_EQ(record.points.size(), 3u) << "neither the largest nor where it was not timed";
  EXPECT_EQ(record.points[1], (database::SizedTime{{{"m", 4}}, 2e-6}));
  EXPECT_THAT(times_at(plan, record), ElementsAre(1e-6, 2e-6, 0, 4e-6, 5e-6));
  const SizePlan other = *plan_sizes(parse_workload("matmul:m=1..32,n=8,k=8"));
  EXPECT_EQ(times_at(other, record).back(), 5e-6);
  record.verdict = TrialVerdict::Wrong;
  EXPECT_THAT(times_at(plan, record), testing::Each(0));
}

TEST(PointFinalists, ProgressIsJudgedAtAllSizes) {
  PointFinalists finalists(2);
  EXPECT_EQ(finalists.typical(), 0);
  const auto keep = [&](double small, double large) {
    Finalist f;
    f.kernel.at_points = {small, large};
    finalists.keep(f);
  };
  keep(4e-6, 1e-4);
  EXPECT_NEAR(finalists.typical(), 2e-5, 1e-12);
  keep(1e-6, 2e-4);
  EXPECT_NEAR(finalists.typical(), 1e-5, 1e-12) << "a gain at the small size counts as well";
}

TEST(PointFinalists, KeepsTheFastestOfEachSize) {
  PointFinalists finalists(2);
  auto keep = [&](const std::string& name, double small, double large) {
    Finalist f;
    f.record.artifact_hash = name;
    f.kernel.at_points = {small, large};
    finalists.keep(f);
  };
  auto names = [&](size_t most, const std::vector<Finalist>& first = {}) {
    std::vector<std::string> list;
    for (const Finalist& f : finalists.pick(first, most)) list.push_back(f.record.artifact_hash);
    return list;
  };
  EXPECT_TRUE(finalists.is_promising({9, 9}));
  keep("small", 1, 9);
  keep("large", 9, 1);
  keep("both", 2, 2);
  keep("slow", 8, 8);
  EXPECT_EQ(finalists.best(0), 1);
  EXPECT_FALSE(finalists.is_promising({2, 2}));
  EXPECT_TRUE(finalists.is_promising({9, 1.05}));
  EXPECT_THAT(names(16), ElementsAre("small", "large", "both", "slow"));
  EXPECT_THAT(names(2), ElementsAre("small", "large"));
  Finalist given;
  given.record.artifact_hash = "both";
  EXPECT_THAT(names(2, {given}), ElementsAre("both", "small"));
}

}  // namespace
}  // namespace tilewright
