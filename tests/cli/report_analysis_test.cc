// Conclusions of a report from trials: intervals, knobs, predictions, baselines.
#include "cli/report/report_analysis.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/error.h"
#include "cli/report/report_baselines.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Speed depends on "tile", a little on "order", and not on "noise".
std::vector<ModelledTrial> trials(int count) {
  std::mt19937 random(3);
  std::vector<ModelledTrial> list;
  for (int i = 0; i < count; ++i) {
    ModelledTrial t;
    t.number = i + 1;
    const auto tile = static_cast<float>(random() % 8), order = static_cast<float>(random() % 2);
    t.knobs = {{"tile.0", tile},
               {"tile.1", 7 - tile},
               {"order", order},
               {"noise", static_cast<float>(random() % 64)},
               {"constant", 3}};
    t.seconds = 1e-3 * (1 + tile + 0.5 * order);
    list.push_back(t);
  }
  return list;
}

TEST(ReportAnalysis, AnIntervalEnclosesTheMedian) {
  const MedianInterval few = interval_of({3, 1, 2, 5, 4});
  EXPECT_EQ(few.median, 3);
  EXPECT_EQ(few.low, 1);
  EXPECT_EQ(few.high, 5);
  EXPECT_EQ(few.samples, 5u);
  std::vector<double> many;
  for (int i = 1; i <= 101; ++i) many.push_back(i);
  const MedianInterval narrow = interval_of(many);
  EXPECT_GT(narrow.low, 35);
  EXPECT_LT(narrow.high, 67);
  EXPECT_TRUE(few.overlaps({4, 4.5, 9, 5}));
  EXPECT_FALSE(few.overlaps({7, 6, 9, 5}));
  EXPECT_EQ(interval_of({}).samples, 0u);
}

TEST(ReportAnalysis, KnobsAreNumbers) {
  KnobWords words;
  EXPECT_THAT(
      knobs_of(R"({"a": 7, "b": [1, 3], "c": "x", "d": true})", words),
      ElementsAre(Pair("a", 3), Pair("b.0", 1), Pair("b.1", 2), Pair("c", 0), Pair("d", 1)));
  EXPECT_THAT(knobs_of(R"({"c": "y"})", words), ElementsAre(Pair("c", 1)));
  EXPECT_THAT(knobs_of(R"({"c": "x"})", words), ElementsAre(Pair("c", 0)));
  EXPECT_TRUE(knobs_of("not JSON", words).empty());
  EXPECT_TRUE(knobs_of("[1]", words).empty());
}

TEST(ReportAnalysis, TheKnobThatDecidesIsTheMostImportant) {
  const KnobImportance found = knob_importance(trials(200));
  ASSERT_EQ(found.missing, "");
  EXPECT_GT(found.explained, 0.8);
  ASSERT_EQ(found.knobs.size(), 3u) << "factors of a split are one knob, and constants none";
  EXPECT_EQ(found.knobs[0].knob, "tile");
  EXPECT_GT(found.knobs[0].share, 0.5);
  EXPECT_EQ(found.knobs[1].knob, "order");
  // A knob of many values that means nothing: the gain of the trees would credit it.
  EXPECT_LT(found.knobs[2].share, 0.05);
}

TEST(ReportAnalysis, NoiseHasNoImportantKnob) {
  std::vector<ModelledTrial> list = trials(200);
  std::mt19937 random(5);
  for (ModelledTrial& t : list) t.seconds = 1 + static_cast<double>(random() % 1000);
  EXPECT_THAT(knob_importance(list).missing, HasSubstr("the trials do not tell"));
}

TEST(ReportAnalysis, FewTrialsSaySo) {
  EXPECT_EQ(knob_importance(trials(10)).missing, "10 valid trials are too few; this takes 24");
  EXPECT_THAT(replayed_predictions(trials(20), CostModel()).missing, HasSubstr("too few trials"));
  EXPECT_THAT(replayed_predictions({}, CostModel()).missing, HasSubstr("too few trials"));
  std::vector<ModelledTrial> alike = trials(30);
  for (ModelledTrial& t : alike) t = {1, 1e-3, {}, {}};
  EXPECT_EQ(knob_importance(alike).missing, "all trials are alike");
}

TEST(ReportAnalysis, PredictionsRankWhatKnobsDecide) {
  std::vector<ModelledTrial> list = trials(96);
  list[20].seconds = 0;  // failed: seen, and not compared
  const Predictions found = replayed_predictions(list, CostModel());
  EXPECT_EQ(found.trials.size(), 96u - 16 - 1);
  EXPECT_EQ(found.trials[0].number, 17);
  EXPECT_GT(found.rank_correlation, 0.8);
}

// A trial's own time, and those of later ones, have no part in its prediction.
TEST(ReportAnalysis, PredictionsKnowNothingOfWhatComes) {
  std::vector<ModelledTrial> list = trials(64), changed = list;
  for (size_t i = 40; i < changed.size(); ++i) changed[i].seconds *= 3 + static_cast<double>(i % 5);
  const Predictions a = replayed_predictions(list, CostModel());
  const Predictions b = replayed_predictions(changed, CostModel());
  for (size_t i = 0; i < a.trials.size(); ++i) {
    if (a.trials[i].number > 48) break;  // blocks of 8: trials 41 to 48 are predicted from 40
    EXPECT_EQ(a.trials[i].predicted, b.trials[i].predicted) << i;
  }
  EXPECT_NE(a.trials.back().predicted, b.trials.back().predicted);
}

class ReportBaselines : public Cli {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(dir_ / "bench.json") << text;
    return (dir_ / "bench.json").string();
  }
};

TEST_F(ReportBaselines, AreReadFromADocumentOfBench) {
  const ReportBenches found = read_benches({write(R"({"results": [
      {"spec": "matmul:m=1,n=2,k=3", "threads": 2, "seconds": 0.5, "default_seconds": null,
       "peers": {"oneDNN": {"seconds": 0.75, "note": "brgemm", "counts": true},
                 "other": {"seconds": 1, "counts": false}}},
      {"spec": "a miss", "threads": 2, "miss": "never tuned"},
      {"spec": "a range", "threads": 2, "seconds": 1, "dims": {"m": 4}, "peers": {}}],
    "peers": {"oneDNN": "3.5", "other": "1"}})")});
  ASSERT_EQ(found.rows.size(), 1u);
  const ReportBench& row = found.rows.at({"matmul:m=1,n=2,k=3", 2});
  EXPECT_EQ(row.seconds, 0.5);
  EXPECT_EQ(row.default_seconds, 0);
  ASSERT_EQ(row.baselines.size(), 2u);
  EXPECT_EQ(row.baselines[0].note, "brgemm");
  EXPECT_TRUE(row.baselines[0].counts);
  EXPECT_FALSE(row.baselines[1].counts);
  EXPECT_EQ(found.versions.size(), 2u);
}

TEST_F(ReportBaselines, AnotherDocumentIsRefused) {
  for (const char* text : {"", "[]", "{\"results\": []}", "{\"results\": 3, \"peers\": {}}", "x"}) {
    try {
      read_benches({write(text)});
      FAIL() << text;
    } catch (const UsageError& e) {
      EXPECT_THAT(e.what(), HasSubstr("is no document of bench"));
    }
  }
  EXPECT_THROW(read_benches({(dir_ / "none.json").string()}), UsageError);
  // Members of other types are passed over.
  const std::string odd = R"({"results": [3, {"seconds": "x"}, {"spec": 1, "threads": "2",
      "seconds": 1}, {"spec": "s", "threads": 1, "seconds": 1, "peers": {"a": 3}}], "peers": {"a": 1}})";
  EXPECT_EQ(read_benches({write(odd)}).rows.size(), 1u);
}

}  // namespace
}  // namespace tilewright::cli
