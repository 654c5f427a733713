// Which machines a tuned kernel serves: those of its chip however they are cut, and others that have its
// instruction sets.
#include <optional>

#include "kernel/cpu_features.h"
#include "serving/choice.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kIdentitySpec = "matmul:m=4,n=8,k=16";

// This machine with so many cores and such a shared cache, as earlier versions wrote it.
database::TargetIdentity as_once_written(int cores, int64_t shared_cache) {
  const Target t = Target::parse("native");
  const TargetFacts facts = target_facts(t);
  return database::make_target(facts.chip, facts.features, cores,
                               facts.extra + " l3=" + std::to_string(shared_cache));
}

// Another chip with the instruction sets of this one, or fewer.
database::TargetIdentity another_chip_identity(
    const std::string& features = native_identity().features) {
  return database::make_target("Another Chip (family 1 model 2)", features, 0,
                               "target=avx512 l1=32768 l2=524288");
}

// What serves the spec first where this machine lets the process use so many processors.
class Machine {
 public:
  Machine(std::initializer_list<HandMade> kernels) : database_(kernels) {}

  Candidate first(int threads, int processors, const std::string& target = "native") {
    table_ = Table::read(database_.path());
    const Target t = Target::parse(target);
    const TargetFacts facts = target_facts(t);
    const Request request =
        make_request(kIdentitySpec, t,
                     database::make_target(facts.chip, facts.features, facts.cores, facts.extra),
                     {threads, processors});
    const std::vector<Candidate> found = candidates(*table_, request, {});
    Candidate miss;
    miss.outcome = TW_MISS;
    return found.empty() ? miss : found.front();
  }
  std::string path() const { return database_.path(); }

 private:
  Database database_;
  std::optional<Table> table_;
};

TEST(ServingIdentity, ProcessorsAndTheSharedCacheTellNoMachinesApart) {
  for (int cores : {1, 2, 96}) {
    Machine machine{{.tag = 1, .threads = 1, .target = as_once_written(cores, 1 << 20)}};
    for (int processors : {1, 2, 64}) {
      EXPECT_EQ(machine.first(1, processors).outcome, TW_HIT) << cores << " " << processors;
      EXPECT_EQ(machine.first(0, processors).outcome, TW_HIT) << cores << " " << processors;
    }
  }
}

TEST(ServingIdentity, AnEarlierVersionsFileServesThroughTheInterface) {
  Database db{{.tag = 1, .is_default = true, .seconds = 1e-3, .target = as_once_written(96, 7)},
              {.tag = 2, .target = as_once_written(96, 7)}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, kIdentitySpec);
  ASSERT_EQ(p.found, TW_OK) << tw_last_error();
  EXPECT_EQ(p.report().outcome, TW_HIT) << p.report().reason;
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  Packed packed(p.kernel, b);
  ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 2), "");
}

TEST(ServingIdentity, FewerProcessorsThanThreadsGiveTheBestOfAtMostThatMany) {
  Machine machine{{.threads = 1, .seconds = 4e-6},
                  {.threads = 2, .seconds = 3e-6},
                  {.threads = 4, .seconds = 2e-6},
                  {.threads = 8, .seconds = 1e-6},
                  {.threads = 1, .is_default = true, .seconds = 1e-3}};
  const auto serves = [&](int threads, int processors) {
    const Candidate c = machine.first(threads, processors);
    return std::string(c.outcome == TW_HIT ? "hit " : "near ") + std::to_string(c.kernel->threads) +
           (c.reason.empty() ? "" : ": ") + c.reason;
  };
  EXPECT_EQ(serves(4, 8), "hit 4");
  EXPECT_EQ(serves(4, 3),
            "near 2: tuned for 2 threads, not for 4, this process may use 3 processors");
  EXPECT_EQ(serves(4, 1),
            "near 1: tuned for 1 thread, not for 4, this process may use 1 processor");
  EXPECT_EQ(serves(3, 8), "near 2: tuned for 2 threads, not for 3");
  EXPECT_EQ(serves(0, 8), "hit 8");
  EXPECT_EQ(serves(0, 3), "hit 2") << "any number will do, and two have a processor each";
}

TEST(ServingIdentity, WithKernelsForMoreThreadsAloneTheNearestServes) {
  Machine machine{{.threads = 8, .seconds = 1e-6},
                  {.threads = 2, .seconds = 3e-6},
                  {.threads = 2, .is_default = true, .seconds = 1e-3}};
  const Candidate c = machine.first(1, 1);
  EXPECT_EQ(c.outcome, TW_NEAR);
  EXPECT_EQ(c.kernel->threads, 2);
  EXPECT_FALSE(c.kernel->is_default);
  EXPECT_EQ(c.reason, "tuned for 2 threads, not for 1, this process may use 1 processor");
  EXPECT_EQ(machine.first(2, 1).reason, "tuned for 2 threads, this process may use 1 processor");
}

TEST(ServingIdentity, TheCommandTunesForThreadsThatHaveAProcessor) {
  Database db{{.threads = 1}};
  const Target target = Target::parse("native");
  const Request request = make_request(kIdentitySpec, target, native_identity(), {8, 3});
  EXPECT_THAT(tune_command(Table::read(db.path()), request), ::testing::EndsWith(" --threads 3"));
}

TEST(ServingIdentity, AnotherChipsKernelGoesBeforeAnyUntunedDefault) {
  HandMade tuned{.tag = 6, .threads = 2, .seconds = 1e-5, .target = another_chip_identity()};
  const HandMade own_default{.tag = 1, .threads = 4, .is_default = true, .seconds = 1e-6};
  const HandMade their_default{
      .tag = 2, .is_default = true, .seconds = 1e-6, .target = another_chip_identity()};
  const HandMade narrow{.tag = 3, .seconds = 1e-6, .target = another_chip_identity("")};
  {
    Database db{their_default, own_default, narrow, tuned};
    Opened opened(db.path());
    PreparedSpec p(opened.library, kIdentitySpec);
    ASSERT_EQ(p.found, TW_OK) << tw_last_error();
    EXPECT_EQ(p.report().outcome, TW_NEAR);
    EXPECT_THAT(p.report().reason,
                StartsWith("tuned for another chip: 'Another Chip (family 1 model 2)', this is '"));
    EXPECT_THAT(p.report().reason, HasSubstr("; tuned for 2 threads, not for 1"));
    Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
    Packed packed(p.kernel, b);
    ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
    const int expected = native_identity().features.empty() ? 3 : 6;
    EXPECT_EQ(product_fault(a, b, c, expected), "");
  }
  Machine defaults{their_default, own_default};
  EXPECT_EQ(defaults.first(1, 1).outcome, TW_DEFAULT);
}

// The features that this processor lacks.
std::vector<std::string> lacking() {
  std::vector<std::string> names;
  for (const std::string& name : known_cpu_features()) {
    if (cpu_features().count(name) == 0) names.push_back(name);
  }
  return names;
}

// Of this machine (the code was made with more than is here now) as well as of another one.
TEST(ServingIdentity, CodeForInstructionSetsThatAreNotHereIsNeverLoaded) {
  if (lacking().empty()) GTEST_SKIP() << "this processor has all that is known";
  const std::string missing = lacking().back();
  for (const bool by_flags : {true, false}) {
    Database db{{.tag = 1, .is_default = true, .target = another_chip_identity("")}};
    {
      database::Store store = database::Store::open(db.path(), database::Mode::ReadWrite);
      // Faster, of this very machine, and of another one.
      for (const database::TargetIdentity& target : {native_identity(), another_chip_identity()}) {
        const HandMade made{.tag = 2, .seconds = 1e-9, .target = target};
        KernelSource source = hand_made_source(made);
        if (!by_flags) source.description.features = {missing};
        add_kernel(store, made, source, by_flags ? "-O3 -m" + missing : "-O3");
      }
    }
    Opened opened(db.path());
    PreparedSpec p(opened.library, kIdentitySpec);
    ASSERT_EQ(p.found, TW_OK) << tw_last_error();
    EXPECT_EQ(p.report().outcome, TW_DEFAULT) << p.report().reason;
    Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
    Packed packed(p.kernel, b);
    ASSERT_EQ(launch(p.kernel, a, nullptr, c, packed.weights), TW_OK) << tw_last_error();
    EXPECT_EQ(product_fault(a, b, c, 1), "");
  }
}

TEST(ServingIdentity, ANarrowerTargetThatIsAskedForTakesNoWiderKernel) {
  if (native_identity().features.empty()) GTEST_SKIP() << "there is but one target";
  Machine machine{{.tag = 1}};
  EXPECT_EQ(machine.first(1, 1).outcome, TW_HIT);
  EXPECT_EQ(machine.first(1, 1, "generic").outcome, TW_MISS);
  Machine narrow{{.tag = 1, .target = another_chip_identity("")}};
  EXPECT_EQ(narrow.first(1, 1, "generic").outcome, TW_NEAR);
}

// The kernel that was tuned here needs what is not here: neither the default nor another one is told
// without that.
TEST(ServingIdentity, AReasonNamesTheFeatureThatTheTunedKernelNeeds) {
  for (const bool is_default : {true, false}) {
    Database db{
        {.tag = 1, .threads = is_default ? 1 : 2, .is_default = is_default, .seconds = 1e-3}};
    {
      auto store = database::Store::open(db.path(), database::Mode::ReadWrite);
      database::Record best = store.records({.by_time = true, .limit = 1}).records.at(0);
      database::Artifact kernel = *store.artifact(best.artifact_hash).value;
      kernel.flags += " -mquantum";
      best.artifact_hash = store.put_artifact(kernel);
      best.is_default = false;
      best.confirmed = true;
      best.threads = 1;
      best.config = "{\"tuned\":1}";
      best.created = 0;
      store.insert(best);
    }
    Opened opened(db.path());
    PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16", 1);
    EXPECT_EQ(p.report().outcome, is_default ? TW_DEFAULT : TW_NEAR);
    EXPECT_THAT(p.report().reason, HasSubstr("needs quantum, which this processor lacks"));
  }
}

}  // namespace
}  // namespace tilewright::serving::testing
