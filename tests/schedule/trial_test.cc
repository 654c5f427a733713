#include "schedule/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/schedule/support.h"

namespace tilewright {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// A sketch whose last knob depends on an earlier choice.
void ask(Trial& t) {
  t.split("i", 12, 2, {.innermost_max = 4});
  if (t.choose("pack", std::vector<std::string>{"none", "b"}) == "b") {
    t.choose("ahead", std::vector<int64_t>{0, 2, 4});
  }
}

std::string config_of(Trial t) {
  ask(t);
  t.require_all_asked();
  return t.config();
}

TEST(Trial, FirstTakesTheFirstOptions) {
  EXPECT_EQ(config_of(Trial::first()), R"({"i":[3,4],"pack":"none"})");
}

TEST(Trial, OneSeedGivesOneConfig) {
  std::set<std::string> configs;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    configs.insert(config_of(Trial::random(seed)));
    EXPECT_EQ(config_of(Trial::random(seed)), config_of(Trial::random(seed)));
  }
  EXPECT_GT(configs.size(), 5u);
}

TEST(Trial, EveryConfigReplays) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::string config = config_of(Trial::random(seed));
    EXPECT_EQ(config_of(Trial::replay(config)), config);
    EXPECT_EQ(config_of(Trial::mutate(config, 0, seed)), config);
  }
}

// Splits move a factor, words become any other, numbers the two next on either side.
TEST(Trial, SingleChangesAreTheNeighbours) {
  Trial t = Trial::replay(R"({"i": [6, 2], "pack": "b", "ahead": 2})");
  ask(t);
  EXPECT_THAT(single_changes(t),
              UnorderedElementsAre(
                  R"({"i":[12,1],"pack":"b","ahead":2})", R"({"i":[4,3],"pack":"b","ahead":2})",
                  R"({"i":[3,4],"pack":"b","ahead":2})", R"({"i":[6,2],"pack":"none","ahead":2})",
                  R"({"i":[6,2],"pack":"b","ahead":0})", R"({"i":[6,2],"pack":"b","ahead":4})"));
}

TEST(Trial, NumbersAreNeighboursByValue) {
  Trial t = Trial::replay(R"({"rows": 4})");
  t.choose("rows", std::vector<int64_t>{4, 1, 8, 2, 16, 32});
  EXPECT_THAT(single_changes(t), UnorderedElementsAre(R"({"rows":1})", R"({"rows":2})",
                                                      R"({"rows":8})", R"({"rows":16})"));
}

// A choice may always return to the first answer.
TEST(Trial, TheFirstOptionIsANeighbour) {
  Trial t = Trial::replay(R"({"rows": 32})");
  t.choose("rows", std::vector<int64_t>{4, 1, 8, 2, 16, 32});
  EXPECT_THAT(single_changes(t),
              UnorderedElementsAre(R"({"rows":4})", R"({"rows":8})", R"({"rows":16})"));
  EXPECT_EQ(changed_choices(t), 1u);
  Trial first = Trial::replay(R"({"rows": 4})");
  first.choose("rows", std::vector<int64_t>{4, 1});
  EXPECT_EQ(changed_choices(first), 0u);
}

// Three loops: a factor moves between two of them, and the third keeps its own, but for the first option.
TEST(Trial, ASplitOfThreeMovesOneFactor) {
  Trial t = Trial::replay(R"({"i": [2, 2, 2]})");
  t.split("i", 8, 3);
  const std::vector<std::string> changes = single_changes(t);
  EXPECT_EQ(changes[0], R"({"i":[1,1,8]})");
  for (size_t i = 1; i < changes.size(); ++i) {
    EXPECT_THAT(changes[i], AnyOf(HasSubstr("[2,"), HasSubstr(",2,"), HasSubstr(",2]")));
  }
  EXPECT_EQ(changes.size(), 7u);
}

TEST(Trial, DecisionsHoldTheOptionsAndTheChoice) {
  Trial t = Trial::replay(R"({"i": [6, 2], "pack": "b", "ahead": 4})");
  ask(t);
  ASSERT_EQ(t.decisions().size(), 3u);
  const Decision& ahead = t.decisions()[2];
  EXPECT_EQ(ahead.name, "ahead");
  EXPECT_THAT(ahead.options, ElementsAre(Answer(int64_t{0}), Answer(int64_t{2}), int64_t{4}));
  EXPECT_EQ(ahead.chosen, 2u);
}

TEST(Trial, ReplayRefusesWhatTheSketchDoesNotOffer) {
  EXPECT_REFUSED(config_of(Trial::replay(R"({"i": [3, 4]})")), BadArgument,
                 R"(the config answers 'pack' with nothing; the options are "none", "b")");
  EXPECT_REFUSED(config_of(Trial::replay(R"({"i": [4, 4], "pack": "none"})")), BadArgument,
                 "the config answers 'i' with [4,4]; the options are ");
  EXPECT_REFUSED(config_of(Trial::replay(R"({"i": 3, "pack": "none"})")), BadArgument,
                 "the config answers 'i' with 3; the options are ");
}

struct Size {
  int rows;
  std::string name() const { return std::to_string(rows) + " rows"; }
};

TEST(Trial, ChoosesAmongThingsByName) {
  const std::vector<Size> sizes = {{4}, {8}};
  EXPECT_EQ(Trial::first().choose_among("size", sizes).rows, 4);
  Trial t = Trial::replay(R"({"size": "8 rows"})");
  EXPECT_EQ(t.choose_among("size", sizes).rows, 8);
  EXPECT_EQ(t.config(), R"({"size":"8 rows"})");
  Trial wrong = Trial::replay(R"({"size": "6 rows"})");
  EXPECT_REFUSED(wrong.choose_among("size", sizes), BadArgument,
                 R"(the config answers 'size' with "6 rows"; the options are "4 rows", "8 rows")");
}

TEST(Trial, ChoosesAmongThingsOrNone) {
  const std::vector<Size> sizes = {{4}, {8}};
  auto name_of = [](const Size& s) { return s.name(); };
  EXPECT_EQ(Trial::first().choose_or_none("size", sizes, name_of)->rows, 4);
  EXPECT_FALSE(Trial::first().choose_or_none("size", sizes, name_of, /*none_first=*/true));
  for (const bool none_first : {false, true}) {
    Trial none = Trial::replay(R"({"size": "none"})"),
          eight = Trial::replay(R"({"size": "8 rows"})");
    EXPECT_FALSE(none.choose_or_none("size", sizes, name_of, none_first));
    EXPECT_EQ(eight.choose_or_none("size", sizes, name_of, none_first)->rows, 8);
  }
}

// A test or a user says what matters.
TEST(Trial, WithAFewChoicesTheOthersAreTheFirst) {
  const std::string first = config_of(Trial::first());
  EXPECT_EQ(config_of(Trial::with("{}")), first);
  const std::string config = config_of(Trial::with(R"({"pack": "b"})"));
  EXPECT_EQ(config, R"({"i":[3,4],"pack":"b","ahead":0})");
  EXPECT_EQ(config_of(Trial::with(config)), config) << "all choices are some";
  EXPECT_REFUSED(config_of(Trial::with(R"({"pack": "neither"})")), BadArgument,
                 "the config answers 'pack' with \"neither\"");
  EXPECT_REFUSED(config_of(Trial::with(R"({"packs": "b"})")), BadArgument,
                 "the config answers 'packs', which the sketch does not ask");
}

TEST(Trial, AnEndingNamesTheKnobsOfAllBlocks) {
  auto chosen = [](const char* choices) {
    Trial t = Trial::with(choices);
    for (const char* name : {"C.tile", "C_acc.tile", "C.B.tile", "tile"}) t.choose(name, {1, 2, 3});
    t.require_all_asked();
    return t.config();
  };
  EXPECT_EQ(chosen(R"({".tile": 2})"), R"({"C.tile":2,"C_acc.tile":2,"C.B.tile":2,"tile":1})");
  EXPECT_EQ(chosen(R"({".tile": 2, ".B.tile": 3, "C.tile": 1})"),
            R"({"C.tile":1,"C_acc.tile":2,"C.B.tile":3,"tile":1})");
  EXPECT_REFUSED(chosen(R"({".stages": 2})"), BadArgument,
                 "the config answers '.stages', which the sketch does not ask; it asks: C.tile, ");
  EXPECT_REFUSED(chosen(R"({".tile": 4})"), BadArgument, "the config answers 'C.tile' with 4");
  EXPECT_EQ(chosen(R"({".stages?": 2, "B.tile?": 2})"), chosen("{}")) << "'?': if it is asked";
  EXPECT_EQ(chosen(R"({".tile?": 2})"), chosen(R"({".tile": 2})"));
  EXPECT_EQ(chosen(R"({".tile?": 2, ".tile": 3})"), chosen(R"({".tile": 3})"));
  EXPECT_REFUSED(chosen(R"({".tile?": 4})"), BadArgument, "the config answers 'C.tile' with 4");
  Trial replayed = Trial::replay(R"({".tile": 2})");
  EXPECT_REFUSED(replayed.choose("C.tile", {1, 2}), BadArgument, "with nothing");
}

// A record of another sketch must not replay as something else.
TEST(Trial, ReplayRefusesAnswersThatNobodyAsksFor) {
  EXPECT_REFUSED(config_of(Trial::replay(R"({"i": [3, 4], "pack": "none", "ahead": 2})")),
                 BadArgument,
                 "the config answers 'ahead', which the sketch does not ask; it asks: i, pack");
  EXPECT_REFUSED(Trial::replay(R"({"unroll": 4})").require_all_asked(), BadArgument,
                 "the config answers 'unroll', which the sketch does not ask; it asks: nothing");
}

// The preferred option comes first; neighbours of a choice are found by value.
TEST(Trial, MutationsMoveToNeighboursByValue) {
  std::map<int64_t, int> times;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Trial t = Trial::mutate(R"({"rows": 8})", 1, seed);
    ++times[t.choose("rows", std::vector<int64_t>{8, 1, 2, 4, 6, 12, 16, 24})];
  }
  // Half of the moves go to one of the two neighbours, the others to any option.
  EXPECT_GT(times[6] + times[12], 200);
  EXPECT_LT(times[1] + times[2], 120);
}

// Warm starts take the fitting choices from a config, and draw the rest.
TEST(Trial, MutationsTakeWhatFits) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Trial t = Trial::mutate(R"({"i": [5, 5], "pack": "b", "other": 1})", 0, seed);
    ask(t);
    t.require_all_asked();
    EXPECT_EQ(std::get<std::string>(t.decisions()[1].options[t.decisions()[1].chosen]), "b");
  }
}

TEST(Trial, CrossoverTakesEachAnswerOfOneParent) {
  const std::string a = R"({"i":[3,4],"pack":"none"})", b = R"({"i":[12,1],"pack":"b","ahead":4})";
  std::set<std::string> children;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Trial t = Trial::crossover(a, b, seed);
    ask(t);
    std::string i = t.config().substr(0, t.config().find("\"pack\""));
    EXPECT_TRUE(i == R"({"i":[3,4],)" || i == R"({"i":[12,1],)") << i;
    children.insert(t.config());
  }
  EXPECT_EQ(children.count(R"({"i":[12,1],"pack":"none"})"), 1u);
  EXPECT_EQ(children.count(R"({"i":[3,4],"pack":"b","ahead":4})"), 1u);
}

TEST(Trial, WhatIsNoConfigIsRefused) {
  for (const char* text : {"", "[1]", "{\"i\": ", "7"}) {
    EXPECT_REFUSED(Trial::replay(text), BadArgument, "a config is a JSON object of answers, got: ");
  }
  for (const char* value : {"1.5", "null", "{}", "[1, \"two\"]", "[1.5]", "18446744073709551615"}) {
    EXPECT_REFUSED(Trial::replay(std::string("{\"i\": ") + value + "}"), BadArgument,
                   "the answer 'i' of a config is a number, a word or a list of numbers, got ");
  }
}

TEST(Trial, QuestionsWithoutAnAnswerAreRefused) {
  Trial t = Trial::first();
  EXPECT_REFUSED(t.choose("tile", std::vector<int64_t>{}), BadArgument,
                 "there is no possible answer to 'tile'");
}

TEST(Trial, AskingTwiceIsAFaultOfTheSketch) {
  Trial t = Trial::first();
  t.choose("tile", std::vector<int64_t>{1});
  EXPECT_THROW(t.choose("tile", std::vector<int64_t>{1}), InternalError);
}

TEST(Factorizations, MultiplyToTheExtentOrALittleMore) {
  for (int64_t extent : {1, 7, 12, 30, 97}) {
    for (int parts : {1, 2, 3}) {
      SplitOptions options{.innermost_max = 16, .innermost_multiple_of = 2, .most_padding = 0.25};
      for (const std::vector<int64_t>& factors : factorizations(extent, parts, options)) {
        ASSERT_EQ(factors.size(), static_cast<size_t>(parts));
        int64_t product = 1;
        for (int64_t f : factors) product *= f;
        EXPECT_GE(product, extent);
        EXPECT_LE(product, std::max<int64_t>(extent + 1, extent * 5 / 4));
        EXPECT_LE(factors.back(), 16);
        EXPECT_EQ(factors.back() % 2, 0);
      }
    }
  }
}

TEST(Factorizations, OfExtentsWithEnoughOfThemAreExact) {
  EXPECT_THAT(factorizations(8, 2, {}), ElementsAre(ElementsAre(1, 8), ElementsAre(2, 4),
                                                    ElementsAre(4, 2), ElementsAre(8, 1)));
}

}  // namespace
}  // namespace tilewright
