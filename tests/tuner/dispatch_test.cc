// Dispatch tables, learnt from times that are made up.
#include "tuner/dispatch.h"

#include <gmock/gmock.h>

#include <cmath>

#include "ir/ops/spec.h"
#include "tuner/dispatch_ranges.h"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SizePlan, HasEndsPowersOfTwoAndSizesBetween) {
  const SizePlan plan = *plan_sizes(parse_workload("matmul:m=1..64,n=8,k=8"));
  EXPECT_EQ(plan.dim, "m");
  EXPECT_THAT(plan.tuned, ElementsAre(1, 4, 8, 32, 64));
  EXPECT_THAT(plan.learnt, ElementsAre(1, 2, 3, 4, 5, 8, 11, 16, 23, 32, 45, 64));
  EXPECT_THAT(plan.held_out, ElementsAre(7, 9, 13, 19, 27, 37, 53));
}

TEST(SizePlan, IsBoundedWhateverTheRange) {
  for (const char* m :
       {"1..2", "1..3", "7..9", "100..101", "1..4096", "5..100000", "3..2147483647"}) {
    SCOPED_TRACE(m);
    const SizePlan plan = *plan_sizes(parse_workload("matmul:m=" + std::string(m) + ",n=8,k=8"));
    EXPECT_LE(plan.tuned.size(), SizePlan::kMostTuned);
    EXPECT_LE(plan.learnt.size(), SizePlan::kMostLearnt);
    for (const auto* sizes : {&plan.tuned, &plan.learnt}) {
      EXPECT_TRUE(std::is_sorted(sizes->begin(), sizes->end(), std::less_equal<>()));
      EXPECT_EQ(sizes->front(), plan.min);
      EXPECT_EQ(sizes->back(), plan.max);
    }
    for (int64_t size : plan.held_out) {
      EXPECT_FALSE(std::binary_search(plan.learnt.begin(), plan.learnt.end(), size)) << size;
      EXPECT_GT(size, plan.min);
      EXPECT_LT(size, plan.max);
    }
  }
}

TEST(SizePlan, IsForOneDynamicDimension) {
  EXPECT_FALSE(plan_sizes(parse_workload("matmul:m=4,n=8,k=8")));
  EXPECT_FALSE(plan_sizes(parse_workload("matmul:m=1..4,n=8,k=8,batch=1..3")));
}

TEST(DispatchRanges, PutsEachKernelWhereItIsFastest) {
  const SizeTimes times = {{1, 4, 16, 64}, {{1, 2, 9, 40}, {3, 2.5, 4, 10}}, {9, 9, 90, 90}};
  EXPECT_THAT(learn_ranges(times, 1, 64, 8),
              ElementsAre(KernelRange{1, 8, 0}, KernelRange{9, 64, 1}));
}

TEST(DispatchRanges, WithOneRangeTakesTheLeastSumOfSlowdowns) {
  const SizeTimes times = {{1, 8, 64}, {{1, 1, 3}, {1.5, 1.2, 1}, {2, 2, 1}}, {9, 9, 9}};
  EXPECT_THAT(learn_ranges(times, 1, 64, 1), ElementsAre(KernelRange{1, 64, 1}));
  EXPECT_NEAR(total_slowdown(times, {{1, 64, 1}}), 0.5 + 0.2, 1e-12);
}

TEST(DispatchRanges, ARangeMoreMustWinMoreThanTheNoise) {
  SizeTimes times = {{1, 8, 64}, {{1, 1, 1.01}, {1.01, 1, 1}}, {9, 9, 9}};
  EXPECT_EQ(learn_ranges(times, 1, 64, 8).size(), 1u);
  times.seconds[0][2] = 1.1;
  times.seconds[1][0] = 1.1;
  EXPECT_EQ(learn_ranges(times, 1, 64, 8).size(), 2u);
}

TEST(DispatchRanges, NoKernelStandsWhereItLosesToTheUntunedOne) {
  // Alone, kernel 0 would have the least sum; at 8 it is slower than the untuned one, which is 2.
  const SizeTimes times = {{1, 8, 64}, {{1, 3, 1}, {5, 2, 5}, {9, 2.5, 9}}, {9, 2.5, 9}};
  EXPECT_THAT(learn_ranges(times, 1, 64, 3),
              ElementsAre(KernelRange{1, 2, 0}, KernelRange{3, 22, 1}, KernelRange{23, 64, 0}));
  EXPECT_THAT(learn_ranges(times, 1, 64, 1), ElementsAre(KernelRange{1, 64, 1}))
      << "kernel 0 must not stand at 8";
}

TEST(DispatchRanges, AreEmptyWhenNothingCoversAllSizes) {
  const SizeTimes times = {{1, 8}, {{1, 0}, {0, 1}}, {0, 0}};
  EXPECT_THAT(learn_ranges(times, 1, 8, 1), IsEmpty());
  EXPECT_EQ(learn_ranges(times, 1, 8, 2).size(), 2u);
}

// Kernels whose time at a size is a formula.
class LearnDispatch : public testing::Test {
 protected:
  using Formula = std::function<double(int64_t)>;

  void add(const std::string& id, Formula seconds, const std::string& rows = "") {
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
                                const std::vector<int64_t>& sizes, int) {
      std::optional<SizeComparison> found;
      if (cancelled_) return found;
      found.emplace();
      for (size_t k : kernels) {
        found->rows.push_back(rows_[k]);
        std::vector<double>& seconds = found->seconds.emplace_back();
        for (int64_t size : sizes) seconds.push_back(formulas_[k](size));
      }
      return found;
    };
    return learn_dispatch(plan_, rivals_, timer, options, bits_tell_order);
  }

  // The time of the table's kernel at a size.
  double table_seconds(const database::DispatchTable& table, int64_t size) const {
    const std::string& id = table.range_at(size)->record;
    for (size_t k = 0; k < rivals_.size(); ++k) {
      if (rivals_[k].record.id == id) return formulas_[k](size);
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
  bool cancelled_ = false;
};

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
  EXPECT_EQ(table.ranges[0].first, 1);
  EXPECT_EQ(table.ranges[1].record, "large");
  EXPECT_EQ(table.ranges[1].last, 4096);
  EXPECT_NEAR(double(table.ranges[0].last), 62, 20) << "they are equal at 62.5";
  EXPECT_EQ(table.default_record, "default");
  EXPECT_FALSE(table.one_order);
  size_t held_out = 0;
  for (const database::DispatchPoint& p : table.points) {
    held_out += p.held_out ? 1 : 0;
    EXPECT_EQ(p.seconds.count("default"), 1u) << p.size;
    EXPECT_EQ(p.seconds.at(table.range_at(p.size)->record), table_seconds(table, p.size));
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

// A kernel that is fast at every size that is learnt, and slow where one is held out.
TEST_F(LearnDispatch, MendsWhereAHeldOutSizeLosesToTheDefault) {
  const int64_t trap = plan_.held_out.at(plan_.held_out.size() / 2);
  const int64_t low = trap - 1, high = trap + 1;
  add("default", [](int64_t m) { return 10e-6 * double(m); });
  add("fast", [=](int64_t m) { return (m >= low && m <= high ? 100e-6 : 1e-6) * double(m); });
  add("steady", [](int64_t m) { return 5e-6 * double(m); });
  const DispatchOutcome outcome = learn();
  ASSERT_TRUE(outcome.table) << outcome.note;
  EXPECT_THAT(outcome.mended, testing::Contains(trap));
  EXPECT_EQ(outcome.table->range_at(trap)->record, "steady");
  EXPECT_EQ(outcome.table->range_at(1)->record, "fast");
  EXPECT_EQ(outcome.table->range_at(4096)->record, "fast");
  for (const database::DispatchPoint& p : outcome.table->points) {
    EXPECT_LE(table_seconds(*outcome.table, p.size), 10e-6 * double(p.size)) << p.size;
    EXPECT_FALSE(p.size == trap && p.held_out) << "what was learnt is no longer held out";
  }
}

TEST_F(LearnDispatch, NeverLosesToTheDefaultWhateverTheTimes) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    rivals_.clear();
    formulas_.clear();
    rows_.clear();
    for (const char* id : {"default", "a", "b", "c"}) {
      const uint64_t salt = seed * 977 + static_cast<unsigned char>(id[0]);
      add(id, [salt](int64_t m) {
        uint64_t mixed = (salt + static_cast<uint64_t>(m)) * 0x9e3779b97f4a7c15u;
        return 1e-6 * (1 + double((mixed >> 40) % 1000) / 100);
      });
    }
    const DispatchOutcome outcome = learn();
    ASSERT_TRUE(outcome.table) << outcome.note;
    for (const database::DispatchPoint& p : outcome.table->points) {
      EXPECT_LE(table_seconds(*outcome.table, p.size),
                (1 + kDispatchNoise) * p.seconds.at("default"))
          << "seed " << seed << " at " << p.size;
    }
    EXPECT_LE(outcome.table->ranges.size(), 8u);
  }
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
  EXPECT_EQ(any.table->range_at(1)->record, "drifting");
  EXPECT_FALSE(any.table->one_order);
  const DispatchOutcome one = learn({.one_order = true});
  ASSERT_TRUE(one.table) << one.note;
  EXPECT_TRUE(one.table->one_order);
  EXPECT_THAT(kernels_of(*one.table), ElementsAre("split"));
  formulas_[1] = [](int64_t m) { return 15e-6 * double(m); };
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
  formulas_[0] = [](int64_t m) { return m == 1 ? 0 : 1e-6; };
  EXPECT_EQ(learn().note, "no kernel could be measured at all sizes");
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
