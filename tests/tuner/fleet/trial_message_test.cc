// Answers of a fleet's workers to the finalists' race.
#include "tuner/fleet/trial_message.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tuner/fleet/link.h"

namespace tilewright {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

CompareJob two_kernels() {
  CompareJob job;
  job.kernels.resize(2);
  return job;
}

json answer_of_a_race() {
  Race race(2);
  for (int round = 0; round < 20; ++round) {
    race.add(0, 1e-3, false);
    race.add(1, 1.001e-3, false);
    race.end_round();
  }
  CompareAnswer answer;
  answer.comparison = race.result();
  answer.comparison.disturbed = "a neighbour";
  return json::parse(to_json(answer));
}

std::string refusal_of(const json& answer) {
  try {
    compare_answer_from(answer, two_kernels());
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(TrialMessage, ARaceComesBackWhole) {
  const Comparison found = compare_answer_from(answer_of_a_race(), two_kernels()).comparison;
  EXPECT_THAT(found.medians, ElementsAre(1e-3, 1.001e-3));
  EXPECT_THAT(found.rounds, ElementsAre(testing::SizeIs(20), testing::SizeIs(20)));
  EXPECT_THAT(found.tied, ElementsAre(true, true));
  EXPECT_THAT(found.behind, ElementsAre(0, testing::DoubleNear(0.001, 1e-9)));
  EXPECT_EQ(found.disturbed, "a neighbour");
}

TEST(TrialMessage, RacesThatMakeNoSenseAreRefused) {
  json answer = answer_of_a_race();
  answer["medians"][1] = 0;
  EXPECT_THAT(refusal_of(answer), HasSubstr("a kernel without a time cannot be among the fastest"));
  answer = answer_of_a_race();
  answer["behind"][0] = -2;
  EXPECT_THAT(refusal_of(answer), HasSubstr("'behind' is no share"));
  for (const char* key : {"tied", "behind", "medians", "rounds", "disturbed"}) {
    answer = answer_of_a_race();
    answer.erase(key);
    EXPECT_THAT(refusal_of(answer), HasSubstr(key));
  }
  answer = answer_of_a_race();
  answer["tied"].push_back(true);
  EXPECT_THAT(refusal_of(answer), HasSubstr("'tied' is no list of 2 entries"));
}

}  // namespace
}  // namespace tilewright
