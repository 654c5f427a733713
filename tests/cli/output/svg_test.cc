// Axes and escaping of charts.
#include "cli/output/svg.h"

#include <gmock/gmock.h>

namespace tilewright::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Svg, TextIsEscapedForTagsAndAttributes) {
  EXPECT_EQ(escape_markup("a<b>&\"c'\x01"), "a&lt;b&gt;&amp;&quot;c&#39; ");
  EXPECT_EQ(escape_markup("µs\n"), "µs\n");
}

TEST(Svg, LinearTicksAreRound) {
  EXPECT_THAT(ticks_of({"trial", 0, 25, false, {}}), ElementsAre(0, 5, 10, 15, 20, 25));
  EXPECT_THAT(ticks_of({"trial", 0, 2, false, {}}), ElementsAre(0, 0.5, 1, 1.5, 2));
}

TEST(Svg, LogarithmicTicksFollowTheDecades) {
  EXPECT_THAT(ticks_of({"x", 0.5, 30, true, {}}), ElementsAre(0.5, 1, 2, 5, 10, 20));
  EXPECT_THAT(ticks_of({"x", 1, 10000, true, {}}), ElementsAre(1, 10, 100, 1000, 10000));
  // Too short for 1, 2, 5: ticks as on a linear axis.
  EXPECT_THAT(ticks_of({"x", 1.1, 1.6, true, {}}),
              ElementsAre(testing::DoubleEq(1.1), testing::DoubleEq(1.2), testing::DoubleEq(1.3),
                          testing::DoubleEq(1.4), testing::DoubleEq(1.5), testing::DoubleEq(1.6)));
}

TEST(Svg, OneValueStillMakesAnAxis) {
  Axis axis = Axis::logarithmic("x", 3, 3);
  EXPECT_LT(axis.min, 3);
  EXPECT_GT(axis.max, 3);
  EXPECT_GE(ticks_of(axis).size(), 2u);
}

TEST(Svg, MarksStandWhereTheirValuesAre) {
  Chart chart("A & B", {"x", 0, 10, false, {}}, {"y", 1, 100, true, {}});
  chart.dot({5, 10}, 2, "trial", "<tip>");
  std::string svg = chart.svg();
  EXPECT_THAT(svg, HasSubstr("aria-label=\"A &amp; B\""));
  // The middle of both axes: of [64, 442] and of [30, 232].
  EXPECT_THAT(svg, HasSubstr("cx=\"253.0\" cy=\"131.0\" r=\"2\"><title>&lt;tip&gt;</title>"));
}

TEST(Svg, WordsOfTicksThatWouldOverlapAreLeftOut) {
  Axis crowded{"x", 0, 10, false, [](double) { return std::string(20, 'w'); }};
  const std::string svg = Chart("chart", crowded, {"y", 0, 1, false, {}}).svg();
  size_t shown = 0;
  for (size_t at = 0; (at = svg.find(">wwww", at)) != std::string::npos; ++at) ++shown;
  EXPECT_GE(shown, 1u);
  EXPECT_LE(shown, 2u) << "each is 160 of 460 pixels wide";
}

TEST(Svg, ALabelWithoutAPlaceIsLeftOut) {
  Chart chart("chart", {"x", 0, 1, false, {}}, {"y", 0, 1, false, {}});
  EXPECT_TRUE(chart.label({0.5, 0.5}, "words", "words"));
  EXPECT_FALSE(chart.label({0.5, 0.5}, std::string(100, 'w'), "words"));
  EXPECT_EQ(chart.svg().find("wwww"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::cli
