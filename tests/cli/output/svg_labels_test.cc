// Places for words in charts.
#include "cli/output/svg_labels.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

namespace tilewright::cli {
namespace {

constexpr Box kChart = {60, 30, 440, 240};

Box box_of(const TextPlace& at, const std::string& words) {
  const double width = text_width(words);
  double left = at.x;
  if (std::strcmp(at.anchor, "end") == 0) left -= width;
  if (std::strcmp(at.anchor, "middle") == 0) left -= width / 2;
  return {left, at.y - 0.8 * kFontSize, left + width, at.y + 0.2 * kFontSize};
}

TEST(SvgLabels, WordsStandBesideTheirPoint) {
  LabelSpace space(kChart);
  const auto place = space.place(200, 100, "12");
  ASSERT_TRUE(place);
  EXPECT_GT(place->x, 200);
  EXPECT_LT(place->x, 215);
  EXPECT_LT(place->y, 100);
}

TEST(SvgLabels, TheRightEdgeTurnsWordsToTheLeft) {
  LabelSpace space(kChart);
  const auto place = space.place(435, 100, "a name");
  ASSERT_TRUE(place);
  EXPECT_STREQ(place->anchor, "end");
}

TEST(SvgLabels, WordsKeepAwayFromMarks) {
  LabelSpace space(kChart);
  const Box mark = {205, 85, 215, 95};
  space.block(mark);
  const auto place = space.place(200, 100, "12");
  ASSERT_TRUE(place);
  EXPECT_FALSE(box_of(*place, "12").overlaps(mark));
}

TEST(SvgLabels, NoTwoOverlapHoweverManyThereAre) {
  LabelSpace space(kChart);
  std::mt19937 random(1);
  std::vector<Box> placed;
  int left_out = 0;
  for (int i = 0; i < 200; ++i) {
    // Most points lie in one corner.
    const double x = 380 + static_cast<double>(random() % 60),
                 y = 40 + static_cast<double>(random() % 80);
    const std::string words = "workload " + std::to_string(i);
    const auto place = space.place(x, y, words);
    if (!place) {
      ++left_out;
      continue;
    }
    const Box box = box_of(*place, words);
    EXPECT_TRUE(kChart.contains(box)) << i;
    for (const Box& other : placed) EXPECT_FALSE(box.overlaps(other)) << i;
    placed.push_back(box);
  }
  EXPECT_GT(placed.size(), 5u);
  EXPECT_GT(left_out, 100);
}

TEST(SvgLabels, AWidthCountsCharactersNotBytes) {
  EXPECT_DOUBLE_EQ(text_width("abcd"), 4 * text_width("a"));
  EXPECT_DOUBLE_EQ(text_width("é"), text_width("語"));
  EXPECT_GT(text_width("語"), text_width("a"));
}

TEST(SvgLabels, LongNamesKeepBothEnds) {
  EXPECT_EQ(shortened("short", 10), "short");
  EXPECT_EQ(shortened("encoder.layer.11", 9), "enco…r.11");
  EXPECT_EQ(shortened("ééééééééé", 5), "éé…éé");
}

}  // namespace
}  // namespace tilewright::cli
