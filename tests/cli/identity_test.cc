// A database serves every cpuset of the machine that tuned it, and other machines of its instruction sets.
#include <gmock/gmock.h>
#include <sched.h>

#include "database/store.h"
#include "kernel/cpu_features.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/identity.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kIdentitySpec = "matmul:m=32,n=32,k=32";

class Identity : public Cli {
 protected:
  void tune(int threads) {
    const Ran ran = run(std::string("tune ") + kIdentitySpec +
                        " --trials 6 --quiet --seed 1 --threads " + std::to_string(threads));
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  // tune-cli on one processor.
  Ran on_cpu(int cpu, const std::string& arguments) {
    return shell("taskset -c " + std::to_string(cpu) + " " TILEWRIGHT_BINARY_DIR "/tune-cli " +
                 arguments);
  }
  Json replayed(const Ran& ran) {
    EXPECT_EQ(ran.code, 0) << ran.err << ran.out;
    return ran.json()["results"][0];
  }
  // Writes "other.db" with what was tuned here, as this machine's kernels under another identity.
  void write_as(const database::TargetIdentity& identity) {
    const database::Store from =
        database::Store::open(dir_ / "tilewright.db", database::Mode::ReadOnly);
    database::Store to = database::Store::open(dir_ / "other.db", database::Mode::Create);
    for (database::Record& record : from.records().records) {
      const database::Lookup<database::Artifact> artifact = from.artifact(record);
      if (artifact) record.artifact_hash = to.put_artifact(*artifact.value);
      record.target = identity;
      to.insert(record);
    }
  }
};

TEST_F(Identity, AKernelForOneThreadIsAHitOnEveryCpuset) {
  tune(1);
  for (int cpu : available_cpus()) {
    const Json row =
        replayed(on_cpu(cpu, std::string("replay ") + kIdentitySpec + " --require --json"));
    EXPECT_EQ(row["outcome"], "hit");
    EXPECT_TRUE(row["hit"].get<bool>());
    EXPECT_TRUE(row["checked"].get<bool>());
  }
}

TEST_F(Identity, AKernelForTwoThreadsIsNearOnOneProcessor) {
  tune(2);
  const int cpu = available_cpus().back();
  const std::string reason = "tuned for 2 threads, not for 1, this process may use 1 processor";
  const Ran ran = on_cpu(cpu, std::string("replay ") + kIdentitySpec + " --require --json");
  const Json row = replayed(ran);
  EXPECT_EQ(row["outcome"], "near");
  EXPECT_EQ(row["near"], reason);
  EXPECT_TRUE(row["checked"].get<bool>());
  EXPECT_THAT(on_cpu(cpu, std::string("replay ") + kIdentitySpec).out,
              HasSubstr("near: " + reason));
  const Json best = on_cpu(cpu, std::string("best --json")).json();
  EXPECT_EQ(best["results"][0]["near"], reason);
  EXPECT_EQ(best["results"][0]["threads"], 2);
  EXPECT_EQ(best["hidden"], 0);
  EXPECT_EQ(on_cpu(cpu, std::string("show --config ") + kIdentitySpec).code, 0);
  EXPECT_EQ(on_cpu(cpu, std::string("explain ") + kIdentitySpec).code, 0);
  const Json bench = on_cpu(cpu, std::string("bench --rounds 1 --json ") + kIdentitySpec).json();
  EXPECT_EQ(bench["results"][0]["near"], reason);
}

TEST_F(Identity, AKernelForOneThreadIsNearWhereMoreAreThereAndNoneIsAskedFor) {
  if (available_threads() < 2) GTEST_SKIP() << "one processor";
  tune(1);
  const Json row = replayed(run(std::string("replay --require --json ") + kIdentitySpec));
  EXPECT_EQ(row["outcome"], "near");
  EXPECT_EQ(run(std::string("replay --require --threads 2 ") + kIdentitySpec).code, 7)
      << "a number that is given is held to";
}

TEST_F(Identity, AMachineOfAnotherCoreCountAndAnEarlierVersionServes) {
  tune(1);
  const TargetFacts facts = target_facts(Target::parse("native"));
  write_as(database::make_target(facts.chip, facts.features, 96, facts.extra + " l3=12345"));
  const int cpu = available_cpus().front();
  const Json row =
      replayed(on_cpu(cpu, std::string("replay --db other.db --require --json ") + kIdentitySpec));
  EXPECT_EQ(row["outcome"], "hit");
  EXPECT_EQ(run("db check --db other.db").code, 0);
}

TEST_F(Identity, AnotherChipOfTheseInstructionSetsServesAndIsHiddenByBest) {
  tune(1);
  const TargetFacts facts = target_facts(Target::parse("native"));
  write_as(database::make_target("Other (family 1 model 2)", facts.features, 0, facts.extra));
  const Json row = replayed(
      run(std::string("replay --db other.db --threads 1 --require --json ") + kIdentitySpec));
  EXPECT_EQ(row["outcome"], "near");
  EXPECT_THAT(row["near"].get<std::string>(),
              HasSubstr("tuned for another chip: 'Other (family 1 model 2)', this is '"));
  EXPECT_EQ(run("best --db other.db").out, "1 row of other machines is hidden; --all shows it\n");
  const Json hidden = run("best --db other.db --json").json();
  EXPECT_EQ(hidden["hidden"], 1);
  EXPECT_EQ(hidden["results"].size(), 0u);
  const Json all = run("best --all --db other.db --json").json();
  EXPECT_EQ(all["hidden"], 0);
  ASSERT_EQ(all["results"].size(), 1u);
  EXPECT_EQ(all["results"][0]["machine"]["chip"], "Other (family 1 model 2)");
  EXPECT_THAT(run("best --all --db other.db").out, HasSubstr("on Other (family 1 model 2) ("));
}

// Tuned kernels need what this processor lacks; the untuned default does not.
TEST_F(Identity, AnUntunedDefaultIsNoHitWhereTheTunedKernelDoesNotRun) {
  tune(1);
  {
    using namespace database;
    const Store from = Store::open(dir_ / "tilewright.db", Mode::ReadOnly);
    Store to = Store::open(dir_ / "other.db", Mode::Create);
    for (Record& record : from.records().records) {
      database::Lookup<Artifact> artifact = from.artifact(record);
      if (!artifact) continue;
      if (!record.is_default) artifact.value->flags += " -mquantum";
      record.artifact_hash = to.put_artifact(*artifact.value);
      record.confirmed = !record.is_default;
      to.insert(record);
    }
  }
  const std::string with = std::string(" --db other.db --threads 1 ") + kIdentitySpec;
  const std::string why =
      "the tuned kernel does not run here: its code needs quantum, which this processor lacks";
  const Json row = replayed(run("replay --json" + with));
  EXPECT_EQ(row["outcome"], "default");
  EXPECT_EQ(row["passed_over"], why);
  const Ran required = run("replay --require" + with);
  EXPECT_EQ(required.code, 7) << required.out;
  EXPECT_THAT(required.out, HasSubstr("default: the tuned kernel does not run here"));
  EXPECT_THAT(required.err, HasSubstr("this would tune it: tune-cli tune"));
  EXPECT_EQ(run("explain --json" + with).json()["results"][0]["passed_over"], why);
  EXPECT_THAT(run("explain" + with).out, HasSubstr("the untuned default serves: the tuned kernel"));
  EXPECT_EQ(run("best --json" + with).json()["results"][0]["passed_over"], why);
}

TEST_F(Identity, WhatHidesNoFeatureIsSaidOnce) {
  if (known_cpu_features().empty()) GTEST_SKIP() << "no features are known here";
  for (const char* wrong : {"foo", "AVX512", "'avx512 amx'"}) {
    const std::string said = run("targets", std::string("TILEWRIGHT_CPU_WITHOUT=") + wrong).err;
    EXPECT_THAT(said, HasSubstr("begins no feature's name and hides nothing; expected names or "
                                "their beginnings, separated by ',', of sse3, "))
        << wrong;
    EXPECT_EQ(said.find("warning: TILEWRIGHT_CPU_WITHOUT="),
              said.rfind("warning: TILEWRIGHT_CPU_WITHOUT="));
  }
  EXPECT_EQ(run("targets", "TILEWRIGHT_CPU_WITHOUT=avx512,amx").err, "");
}

// The processor's features are hidden: what was tuned with them is there, and is not loaded.
TEST_F(Identity, WithoutTheInstructionSetsThereIsNoKernel) {
  if (Target::parse("native").name != "avx512") GTEST_SKIP() << "no AVX-512 to hide";
  tune(1);
  const Ran ran = run(std::string("replay --threads 1 --require --json ") + kIdentitySpec,
                      "TILEWRIGHT_CPU_WITHOUT=avx512,amx");
  EXPECT_EQ(ran.code, 7) << ran.out;
  EXPECT_THAT(ran.json()["results"][0]["miss"].get<std::string>(),
              HasSubstr("tuned for other instruction sets"));
}

}  // namespace
}  // namespace tilewright::cli
