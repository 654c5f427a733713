#include "database/target.h"

#include "database/tables/dispatch_row.h"
#include "database/tables/row.h"
#include "database/tables/sqlite.h"
#include "tests/database/fixture.h"

namespace tilewright::database::testing {
namespace {

constexpr const char* kChip = "AMD EPYC 9B14 (family 25 model 17)";
constexpr const char* kFeatures = "avx2 avx512f fma";

// As earlier versions wrote it.
TargetIdentity old_target(int cores, int64_t shared_cache, const std::string& chip = kChip) {
  return make_target(chip, kFeatures, cores,
                     "target=avx512 l1=32768 l2=1048576 l3=" + std::to_string(shared_cache));
}
TargetIdentity target_today(const std::string& chip = kChip,
                            const std::string& features = kFeatures) {
  return make_target(chip, features, 0, "target=avx512 l1=32768 l2=1048576");
}

TEST(Target, AChipIsItsFamilyAndModel) {
  EXPECT_EQ(chip_model(kChip), "family 25 model 17");
  EXPECT_EQ(chip_model("NVIDIA H200"), "NVIDIA H200");
  EXPECT_EQ(chip_model("Chip (tm)"), "Chip (tm)");
  EXPECT_EQ(chip_model("(family 6 model 1) of old"), "(family 6 model 1) of old");
  EXPECT_EQ(target_today().hash, target_today("AMD EPYC (family 25 model 17)").hash);
  EXPECT_NE(target_today().hash, target_today("AMD EPYC 9B14 (family 25 model 18)").hash);
}

TEST(Target, CoresAndTheSharedCacheOfEarlierVersionsAreLeftOut) {
  EXPECT_EQ(identity_today(old_target(2, 1 << 25)), target_today());
  EXPECT_EQ(identity_today(old_target(96, 12345)), target_today());
  EXPECT_EQ(identity_today(target_today()), target_today());
  const TargetIdentity gpu = make_target("NVIDIA H200", "sm_90a", 132, "target=cuda:sm_90a");
  EXPECT_EQ(identity_today(gpu), gpu);
  EXPECT_EQ(identity_today(sample_target()), sample_target());
  for (const char* extra : {"target=avx512 l3=1 l2=2", "target=avx512 l1=1 l2=2 l3=3x",
                            "l1=1 l2=2 l3=3", "target=avx512 l1=1 l2=2 l3=3 l4=4"}) {
    const TargetIdentity other = make_target(kChip, kFeatures, 2, extra);
    EXPECT_EQ(identity_today(other), other) << extra;
  }
}

TEST(Target, KernelsServeWhereTheirInstructionSetsAre) {
  const TargetIdentity here = target_today();
  EXPECT_TRUE(may_serve(here, here));
  EXPECT_TRUE(may_serve(target_today("Other", kFeatures), here));
  EXPECT_TRUE(may_serve(target_today("Other", "avx2 fma"), here));
  EXPECT_TRUE(may_serve(target_today("Other", ""), here));
  EXPECT_FALSE(may_serve(target_today(kChip, "avx2 avx512f avx512fp16 fma"), here));
  EXPECT_FALSE(may_serve(here, target_today(kChip, "avx2 fma")));
  const TargetIdentity gpu = make_target("NVIDIA H200", "sm_90a", 132, "target=cuda:sm_90a");
  EXPECT_FALSE(may_serve(gpu, here));
  EXPECT_FALSE(may_serve(here, gpu));
  EXPECT_FALSE(may_serve(target_today("Other", ""), gpu));
  EXPECT_TRUE(may_serve(make_target("NVIDIA H100", "sm_90a", 114, "target=cuda:sm_90a"), gpu));
}

TEST(Target, TheCodeNeedsWhatItsFlagsAndItsDescriptionName) {
  Artifact artifact;
  artifact.flags =
      "-O3 -mavx2 -mfma -mno-vzeroupper -mprefer-vector-width=512 -march=native -mavx512f";
  artifact.description = R"({"features": ["avx512vnni"]})";
  EXPECT_EQ(needed_features(artifact),
            (std::set<std::string>{"avx2", "avx512f", "avx512vnni", "fma"}));
  EXPECT_EQ(lacking_features(artifact, {"avx2", "avx512f", "avx512vnni", "fma", "sse3"}), "");
  EXPECT_EQ(lacking_features(artifact, {"avx2", "fma"}),
            "its code needs avx512f, avx512vnni, which this processor lacks");
  for (const char* description : {"", "no JSON", "[]", R"({"features": 7})"}) {
    artifact.description = description;
    EXPECT_EQ(needed_features(artifact), (std::set<std::string>{"avx2", "avx512f", "fma"}));
  }
}

TEST(Target, ThreadsAreMetWhereEachHasAProcessor) {
  EXPECT_EQ((ThreadsAsked{2, 4}.difference(2)), "");
  EXPECT_EQ((ThreadsAsked{2, 4}.difference(3)), "tuned for 3 threads, not for 2");
  EXPECT_EQ((ThreadsAsked{0, 4}.difference(4)), "");
  EXPECT_EQ((ThreadsAsked{0, 1}.difference(2)),
            "tuned for 2 threads, this process may use 1 processor");
  EXPECT_EQ((ThreadsAsked{4, 2}.difference(4)),
            "tuned for 4 threads, this process may use 2 processors");
  EXPECT_EQ((ThreadsAsked{4, 2}.difference(1)),
            "tuned for 1 thread, not for 4, this process may use 2 processors");
}

// From the nearest to the farthest.
TEST(Target, TunedThenInstructionSetsThenTheChipThenThreadsThenTime) {
  const TargetIdentity here = target_today();
  const ThreadsAsked asked{4, 4};
  const auto near = [&](const TargetIdentity& target, int threads, double seconds,
                        bool is_default = false) {
    return nearness(target, here, threads, asked, seconds, is_default);
  };
  const TargetIdentity caches = make_target(kChip, kFeatures, 0, "target=avx512 l1=1 l2=1");
  const std::vector<Nearness> order = {near(here, 2, 1),
                                       near(here, 3, 2),
                                       near(here, 2, 2),
                                       near(here, 5, 1),
                                       near(here, 8, 0.5),
                                       near(caches, 4, 0.1),
                                       near(target_today("Other"), 4, 0.1),
                                       near(target_today(kChip, "avx2 fma"), 4, 0.1),
                                       near(target_today(kChip, ""), 4, 0.1),
                                       near(here, 4, 0.1, /*is_default=*/true)};
  for (size_t i = 1; i < order.size(); ++i) EXPECT_LT(order[i - 1], order[i]) << i;
}

// A database that two machines of one chip wrote with an earlier version.
class OldTargets : public ::testing::Test {
 protected:
  OldTargets() : store_(Store::open(folder_ / "old.db", Mode::Create)) {
    Record slow = sample_record(5), fast = sample_record(2);
    slow.target = old_target(2, 1 << 25);
    fast.target = old_target(96, 1 << 28);
    slow_ = store_with_artifact(store_, slow);
    fast_ = store_with_artifact(store_, fast);
    query_ = {.workload_hash = slow.workload_hash, .target = target_today()};
  }

  TempFolder folder_;
  Store store_;
  Record slow_, fast_;
  BestQuery query_;
};

TEST_F(OldTargets, AreFoundUnderTodaysIdentity) {
  const BestResult best = store_.best(query_);
  ASSERT_TRUE(best.record) << best.miss;
  EXPECT_EQ(best.record->id, fast_.id);
  EXPECT_EQ(best.record->target, target_today());
  EXPECT_TRUE(best.artifact);
  EXPECT_EQ(store_.records({.target_hash = target_today().hash}).records.size(), 2u);
  EXPECT_EQ(store_.records({.target_hash = target_today("Other").hash}).records.size(), 0u);
  EXPECT_EQ(store_.tried(slow_.workload_hash, target_today().hash).size(), 2u);
  EXPECT_EQ(store_.workloads("", target_today().hash).size(), 1u);
  EXPECT_EQ(store_.info().targets, (std::vector<TargetIdentity>{target_today()}));
  EXPECT_TRUE(store_.check().ok());
}

TEST_F(OldTargets, CompeteWithNewRows) {
  Record newer = sample_record(1);
  newer.target = target_today("AMD EPYC (family 25 model 17)");
  newer = store_with_artifact(store_, newer);
  EXPECT_EQ(store_.best(query_).record->id, newer.id);
  EXPECT_EQ(store_.records({.target_hash = target_today().hash}).records.size(), 3u);
}

TEST_F(OldTargets, KeepTheirDispatchTablesAndModels) {
  const DispatchTable table = sample_dispatch({fast_});
  ASSERT_EQ(table.target_hash, old_target(96, 1 << 28).hash);
  {
    const Connection connection((folder_ / "old.db").string(), Connection::Access::Write,
                                milliseconds(0));
    join_row(connection, table_named("dispatch"), kSchemaVersion, dispatch_row(table));
  }
  const DispatchResult found = store_.dispatch(query_);
  ASSERT_TRUE(found.table) << found.miss;
  EXPECT_EQ(found.table->target_hash, target_today().hash);
  EXPECT_EQ(store_.best_at(query_, {{"m", 8}}).record->id, fast_.id);
  Model model = sample_model(3);
  model.target_hash = old_target(2, 1 << 25).hash;
  store_.put_model(model);
  EXPECT_TRUE(store_.model(target_today().hash, model.kind, model.feature_version));
  EXPECT_FALSE(store_.model(target_today("Other").hash, model.kind, model.feature_version));
}

TEST_F(OldTargets, GoIntoAFileForServing) {
  store_.export_serving(folder_ / "serve.db");
  const Store served = Store::open(folder_ / "serve.db", Mode::ReadOnly);
  EXPECT_TRUE(served.check().ok());
  const BestResult best = served.best(query_);
  ASSERT_TRUE(best.record) << best.miss;
  EXPECT_EQ(best.record->id, fast_.id);
  EXPECT_TRUE(best.artifact);
}

// What came from somebody else's file is nearer and must not run all the same.
TEST_F(OldTargets, MayNotRunWhereTheyWereMergedInto) {
  Store mine = Store::open(folder_ / "mine.db", Mode::Create);
  store_ = Store::open(folder_ / "old.db", Mode::ReadWrite);
  mine.merge(folder_ / "old.db");
  EXPECT_FALSE(mine.best(query_).record);
  query_.target = target_today("Other");
  for (const NearQuery& near : mine.nearest(query_, {1, 1})) {
    const BestResult best = mine.best(near.query);
    EXPECT_FALSE(best.artifact);
    EXPECT_FALSE(best.record);
  }
}

TEST(Nearest, AsksForEachTargetAndNumberOfThreads) {
  Store store = Store::open_in_memory();
  const TargetIdentity here = target_today();
  const auto add = [&](int number, const TargetIdentity& target, int threads,
                       bool untuned = false) {
    Record record = sample_record(number);
    record.target = target;
    record.threads = threads;
    record.is_default = untuned;
    store_with_artifact(store, record);
  };
  add(1, here, 8);
  add(2, here, 2);
  add(3, target_today("Other"), 4);
  add(4, target_today("Other", "avx2 avx512f avx512fp16 fma"), 4);  // does not run here
  add(5, here, 1, /*untuned=*/true);
  const BestQuery query = {
      .workload_hash = sample_record(0).workload_hash, .target = here, .threads = 4};
  EXPECT_FALSE(store.best(query).record);
  std::vector<std::string> reasons;
  for (const NearQuery& near : store.nearest(query, {4, 4})) {
    reasons.push_back(near.reason);
    EXPECT_TRUE(store.best(near.query).record) << near.reason;
  }
  EXPECT_EQ(reasons, (std::vector<std::string>{
                         "tuned for 2 threads, not for 4",
                         "tuned for 8 threads, not for 4, this "
                         "process may use 4 processors",
                         std::string("tuned for another chip: 'Other', this is '") + kChip + "'",
                         "tuned for 1 thread, not for 4"}));
}

TEST(Nearest, CodeThatNeedsMoreThanTheProcessorHasIsPassedOver) {
  Store store = Store::open_in_memory();
  Record fast = sample_record(1), slow = sample_record(2);
  Artifact needs = sample_artifact(1), plain = sample_artifact(2);
  needs.flags = "-O3 -mavx512vnni";
  plain.flags = "-O3";
  fast.artifact_hash = store.put_artifact(needs);
  slow.artifact_hash = store.put_artifact(plain);
  store.insert(fast);
  slow.id = store.insert(slow);
  BestQuery query = query_for(fast);
  query.processor = {"avx512f"};
  ASSERT_TRUE(store.best(query).record);
  EXPECT_EQ(store.best(query).record->id, slow.id);
}

}  // namespace
}  // namespace tilewright::database::testing
