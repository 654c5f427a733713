// A crew of simulated devices, honest and wrong ones: each job is done once, whatever they send.
#include "tuner/fleet/crew.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "ir/ops/spec.h"
#include "runtime/machine/timer.h"
#include "tilewright/version.h"
#include "tuner/fleet/fleet.h"
#include "tuner/fleet/fleet_measurer.h"

namespace tilewright {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::SizeIs;

const std::atomic<bool> kGoOn = false;

std::vector<Place> devices(const std::string& mode, int count = 1, double seconds = 0) {
  std::vector<Place> places;
  for (int i = 0; i < count; ++i) {
    places.push_back({fmt::format("{} {}", mode, i),
                      {TILEWRIGHT_BINARY_DIR "/fleet_device", mode, std::to_string(seconds)}});
  }
  return places;
}

FleetOptions quick_options() {
  FleetOptions options;
  options.opening = {TILEWRIGHT_VERSION, "native"};
  options.threads = 1;
  options.hello_seconds = 60;
  options.crew.silence_seconds = 0.5;
  options.crew.restart_seconds = 0.01;
  return options;
}

Fleet gather(std::vector<Place> places, const std::vector<Place>& more = {},
             const FleetOptions& options = quick_options()) {
  places.insert(places.end(), more.begin(), more.end());
  return gather_fleet(places, options, kGoOn, [](const std::string&) {});
}

// Jobs that a device answers with their index.
class Counted : public CrewWork {
 public:
  explicit Counted(size_t count) : times(count), lost(count) {}
  std::optional<CrewJob> make(size_t index) override {
    return CrewJob{"draw", fmt::format(R"({{"index":{}}})", index), lease_seconds};
  }
  Judgement judge(size_t index, int, const nlohmann::json& answer) override {
    EXPECT_EQ(answer.at("index"), index);
    ++times[index];
    return {};
  }
  void give_up(size_t index, const std::string&) override { ++lost[index]; }
  std::optional<std::string> artifact(const std::string&) override { return std::nullopt; }

  double lease_seconds = 30;
  std::vector<int> times, lost;
};

TEST(Crew, KilledWorkersLoseNoJobAndNoneIsCountedTwice) {
  constexpr size_t kJobs = 400;
  FleetOptions options = quick_options();
  options.crew.losses = 100;  // a fifth of all jobs kills its worker
  options.crew.attempts = 100;
  Fleet fleet = gather(devices("dies", 8, 0.005), {}, options);
  Counted work(kJobs);
  fleet.groups[0].crew->run(kJobs, work, kGoOn);
  EXPECT_THAT(work.times, AllOf(SizeIs(kJobs), Each(1)));
  EXPECT_GT(fleet.groups[0].crew->counts().lost, 20);
  EXPECT_EQ(fleet.groups[0].crew->counts().answers, kJobs);
}

TEST(Crew, WrongWorkersAreRefusedAndTheirJobsGoToOthers) {
  const std::pair<const char*, const char*> refusals[] = {
      {"garbage", "no line of a worker"},
      {"array", "no line of a worker"},
      {"empty", "an answer without a result"},
      {"lease", "which it does not hold"},
      {"text", "which it does not hold"},
      {"twice", "which it does not hold"},
      {"needs", "an artifact that its job does not have"},
      {"endless", "a line without an end"},
  };
  for (const auto& [mode, reason] : refusals) {
    SCOPED_TRACE(mode);
    Fleet fleet = gather(devices(mode), devices("honest", 1, 0.05));
    Crew& crew = *fleet.groups.at(0).crew;
    Counted work(20);
    crew.run(20, work, kGoOn);
    EXPECT_THAT(work.times, Each(1));
    EXPECT_EQ(crew.counts().refused, 3);
    ASSERT_THAT(crew.counts().dropped, SizeIs(1));
    EXPECT_THAT(crew.counts().dropped[0].name, HasSubstr(mode));
    EXPECT_THAT(crew.counts().dropped[0].reason, HasSubstr(reason));
  }
}

TEST(Crew, LostWorkersAreStartedAgainAndThenDropped) {
  const std::pair<const char*, const char*> losses[] = {
      {"exits", "exit code 3"},
      {"silent", "silent for"},
      {"beats", "its lease ended before it answered"},
      {"error", "no C compiler"},
  };
  for (const auto& [mode, reason] : losses) {
    SCOPED_TRACE(mode);
    FleetOptions options = quick_options();
    options.crew.losses = 2;
    Fleet fleet = gather(devices(mode), devices("honest", 1, 0.1), options);
    Crew& crew = *fleet.groups.at(0).crew;
    Counted work(30);
    work.lease_seconds = 1;
    crew.run(30, work, kGoOn);
    EXPECT_THAT(work.times, Each(1));
    EXPECT_EQ(crew.counts().lost, 2);
    ASSERT_THAT(crew.counts().dropped, SizeIs(1));
    EXPECT_THAT(crew.counts().dropped[0].reason, HasSubstr(reason));
  }
}

TEST(Crew, AJobThatLosesAllItsWorkersIsGivenUp) {
  FleetOptions options = quick_options();
  options.crew.losses = 10;
  options.crew.attempts = 2;
  Fleet fleet = gather(devices("exits"), {}, options);
  Counted work(1);
  fleet.groups[0].crew->run(1, work, kGoOn);
  EXPECT_EQ(work.times[0], 0);
  EXPECT_EQ(work.lost[0], 1);
}

TEST(Crew, WithoutAnyWorkerTheRunEndsAndSaysWhy) {
  Fleet fleet = gather(devices("garbage"));
  Counted work(5);
  try {
    fleet.groups[0].crew->run(5, work, kGoOn);
    FAIL();
  } catch (const FleetError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("no worker is left; all finished trials are kept"),
                                HasSubstr("garbage 0: it sent what no worker sends")));
  }
}

TEST(Crew, ACancelledRunEndsAtOnce) {
  Fleet fleet = gather(devices("honest", 2, 1000));
  std::atomic<bool> cancelled = false;
  const std::jthread soon([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancelled = true;
  });
  Counted work(4);
  const double begin = steady_seconds();
  fleet.groups[0].crew->run(4, work, cancelled);
  EXPECT_LT(steady_seconds() - begin, 30);
  EXPECT_THAT(work.times, Each(0));
}

TEST(Fleet, WorkersThatCannotBeginAreNamed) {
  const std::pair<const char*, const char*> absent[] = {
      {"stranger", "exit code 255: Permission denied (publickey)."},
      {"old", "tune-cli is version 0.0.1 there"},
      {"peaks", "'machine' has no peaks"},
  };
  for (const auto& [mode, reason] : absent) {
    SCOPED_TRACE(mode);
    const Fleet fleet = gather(devices(mode), devices("greeting"));
    EXPECT_EQ(fleet.workers, 1u);
    ASSERT_THAT(fleet.absent, SizeIs(1));
    EXPECT_THAT(fleet.absent[0].reason, HasSubstr(reason));
    EXPECT_THROW(gather(devices(mode)), FleetError);
  }
  FleetOptions many = quick_options();
  many.threads = 60'000;
  EXPECT_THROW(gather(devices("honest"), {}, many), FleetError);
}

TEST(Fleet, MachinesAreGroupedByIdentity) {
  const Fleet fleet = gather(devices("honest", 2), devices("other"));
  ASSERT_THAT(fleet.groups, SizeIs(2));
  EXPECT_NE(fleet.groups[0].identity.hash, fleet.groups[1].identity.hash);
  EXPECT_EQ(fleet.groups[0].crew->size() + fleet.groups[1].crew->size(), 3u);
}

// Real candidates, whose answers are drawn.
class FleetTrials : public testing::Test {
 protected:
  std::vector<Measurement> measure(Fleet& fleet, size_t count) {
    CandidateMaker maker(workload_, target_, 1);
    Candidate c = maker.make_default();
    c.is_default = false;
    FleetMeasurer measurer(*fleet.groups.at(0).crew, target_, {});
    return measurer.measure(workload_, std::vector<Candidate>(count, c), {kGoOn}, 1e-9,
                            [&](size_t, const Measurement&) { ++told_; });
  }

  const Workload workload_ = parse_workload("matmul:m=64,n=64,k=64");
  const Target target_ = Target::parse("native");
  size_t told_ = 0;
};

TEST_F(FleetTrials, AnswersThatMakeNoSenseAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"median", "a median of"},
      {"negative", "which is no time"},
      {"huge", "which is no time"},
      {"types", "'samples' is no list"},
      {"points", "'at_points' is no list"},
      {"verdict", "an unknown verdict"},
      {"object", "not what its length and hash say"},
  };
  for (const auto& [mode, reason] : wrong) {
    SCOPED_TRACE(mode);
    Fleet fleet = gather(devices(mode), devices("honest", 1, 0.05));
    told_ = 0;
    measure(fleet, 20);
    EXPECT_EQ(told_, 20u);
    const CrewCounts& counts = fleet.groups[0].crew->counts();
    EXPECT_EQ(counts.refused, 3);
    ASSERT_THAT(counts.dropped, SizeIs(1));
    EXPECT_THAT(counts.dropped[0].reason, HasSubstr(reason));
  }
}

TEST_F(FleetTrials, AForgedTimeIsMeasuredAgainAndItsWorkerRefused) {
  Fleet fleet = gather(devices("forges"), devices("honest", 2, 0.05));
  for (const Measurement& m : measure(fleet, 30)) EXPECT_GT(m.median, 1e-4);
  EXPECT_EQ(told_, 30u);
  const CrewCounts& counts = fleet.groups[0].crew->counts();
  EXPECT_EQ(counts.refused, 3);
  EXPECT_GE(counts.repeated, 3);
  ASSERT_THAT(counts.dropped, SizeIs(1));
  EXPECT_THAT(counts.dropped[0].reason, HasSubstr("faster than the machine can be"));
}

}  // namespace
}  // namespace tilewright
