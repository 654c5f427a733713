#include "tuner/fleet/place.h"

#include <gmock/gmock.h>

namespace tilewright {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::vector<Place> places(const std::string& text) { return parse_places(text, "/bin/tune-cli"); }

TEST(Places, EachFormBecomesCommands) {
  EXPECT_THAT(places("local:3"), SizeIs(3));
  EXPECT_THAT(places("local:3")[1].command, ElementsAre("/bin/tune-cli", "worker"));
  EXPECT_EQ(places("local:3")[1].name, "local:3 #2");
  const auto hosts = places("ssh:a,me@b");
  ASSERT_THAT(hosts, SizeIs(2));
  EXPECT_EQ(hosts[1].name, "ssh:me@b");
  EXPECT_THAT(hosts[1].command, Contains("me@b"));
  EXPECT_EQ(hosts[1].command.back(), "tune-cli worker");
  EXPECT_THAT(places("command:kubectl exec -i p -- tune-cli worker")[0].command,
              ElementsAre("/bin/sh", "-c", "kubectl exec -i p -- tune-cli worker"));
  EXPECT_THAT(places("ray:2"), SizeIs(2));
  EXPECT_THAT(places("ray"), SizeIs(1));
}

TEST(Places, SlurmTasksBecomeStepsOfOneTask) {
  for (const char* text : {"srun:-n 4 -p cpu", "srun:-n4 -p cpu", "srun:-p cpu --ntasks=4"}) {
    SCOPED_TRACE(text);
    const auto steps = places(text);
    ASSERT_THAT(steps, SizeIs(4));
    EXPECT_THAT(steps[0].command, ElementsAre("srun", "--ntasks=1", "--quiet", "--unbuffered", "-p",
                                              "cpu", "tune-cli", "worker"));
  }
  EXPECT_THAT(places("srun:"), SizeIs(1));
}

TEST(Places, OthersAreRefusedWithTheForms) {
  for (const char* text : {"", "local", "local:0", "local:x", "local:99999999", "ssh:",
                           "ssh:-oProxyCommand=x", "srun:-n", "srun:-n 0", "cloud:3", "command:"}) {
    SCOPED_TRACE(text);
    try {
      places(text);
      ADD_FAILURE();
    } catch (const FleetError& e) {
      EXPECT_THAT(e.what(), HasSubstr("expected local:COUNT, ssh:HOST,HOST"));
    }
  }
}

}  // namespace
}  // namespace tilewright
