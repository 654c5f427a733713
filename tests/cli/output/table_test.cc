// Tables and texts for people: nothing is cut off, and nothing is wider than it may be.
#include "cli/output/table.h"

#include <gmock/gmock.h>

#include <sstream>

#include "cli/line/duration.h"
#include "cli/output/progress.h"
#include "ir/ops/spec.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t widest(const std::string& text) {
  size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

TEST(Table, NamesStandBesideTheirValues) {
  Table table({"workload", "time", "GFLOP/s"});
  table.row({"matmul:m=8,n=8,k=8", "1.2 us", "3.4"});
  table.row({"softmax", "12.5 us", "-"});
  table.note("predicted");
  EXPECT_EQ(table.text(80),
            "workload               time  GFLOP/s\n"
            "matmul:m=8,n=8,k=8   1.2 us      3.4\n"
            "softmax             12.5 us        -\n"
            "  predicted\n");
  EXPECT_EQ(Table({"workload", "time"}).text(80), "");
}

TEST(Table, ALongNameStandsAloneAndWhole) {
  Table table({"workload", "time", "GFLOP/s", "roof", "default", "onednn", "openblas"});
  std::string name = "conv2d:n=1";
  for (int i = 0; i < 20; ++i) name += ",key" + std::to_string(i) + "=1234";
  table.row({name, "1.2 us", "3.4", "55%", "1.5x", "1.00x", "2.00x"});
  table.row({"relu", "1.2 us", "3.4", "55%", "1.5x", "1.00x", "2.00x"});
  const std::string text = table.text(80);
  EXPECT_LE(widest(text), 80u) << text;
  EXPECT_THAT(text, HasSubstr("\nrelu  "));
  std::string joined;
  for (char c : text) {
    if (c != '\n' && c != ' ') joined += c;
  }
  EXPECT_THAT(joined, HasSubstr(name)) << "every key is there";
  EXPECT_LE(widest(table.text(60)), 60u) << table.text(60);
}

TEST(Table, TextsAreBrokenAtSpacesAndBehindCommas) {
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("a=1,b=2,c=3", 8, 0), "a=1,b=2,\nc=3");
  EXPECT_EQ(wrapped("unbreakable words", 5, 0), "unbreakable\nwords");
  EXPECT_EQ(wrapped("", 5, 0), "");
}

TEST(Progress, OneLineFitsWhateverThereIsToSay) {
  Workload w = make_workload(parse_spec("matmul:m=32,n=48,k=16,name=" + std::string(90, 'x')));
  TuneProgress p;
  p.workload = &w;
  p.index = 11;
  p.count = 127;
  p.trials = 12345;
  p.budget = 100000;
  p.valid = 12000;
  p.invalid = {{TrialVerdict::Wrong, 12}, {TrialVerdict::Timeout, 45}, {TrialVerdict::Illegal, 99}};
  p.best_seconds = 1.234e-6;
  p.default_seconds = 1e-3;
  p.elapsed = 12345;
  p.done = 10;
  p.remaining = 100;
  for (size_t width : {40u, 79u, 119u, 300u}) {
    const std::string line = progress_text(p, 1e-6, width);
    EXPECT_LE(line.size(), width) << line;
    EXPECT_THAT(line, testing::StartsWith("[12/127] ")) << line;
    EXPECT_THAT(line, HasSubstr("trial 12345/100000")) << line;
  }
  EXPECT_THAT(progress_text(p, 1e-6, 79), HasSubstr("best 1.2 us"));
  const std::string all = progress_text(p, 1e-6, 300);
  for (const char* part : {"xxx, trial", "156 failed: ", " 12", " 45", "39.8 GFLOP/s",
                           "81% of roofline", "default 1.000 ms", "12345s", "s left"}) {
    EXPECT_THAT(all, HasSubstr(part));
  }
  p.invalid.clear();
  EXPECT_THAT(progress_text(p, 0, 300), Not(testing::AnyOf(HasSubstr("failed"), HasSubstr("%"))));
}

TEST(Duration, OfNumbersWithUnits) {
  for (const auto& [text, seconds] :
       std::vector<std::pair<const char*, double>>{{"90", 90},
                                                   {"90s", 90},
                                                   {"10m", 600},
                                                   {"2h", 7200},
                                                   {"1h30m", 5400},
                                                   {"1.5h", 5400},
                                                   {"1h 30min 5s", 5405},
                                                   {"1d2h", 93600},
                                                   {"2 hours", 7200},
                                                   {"0.5", 0.5}}) {
    EXPECT_EQ(parse_duration(text), seconds) << text;
  }
  for (const char* text : {"", "soon", "30m1h", "1h30", "1m1m", "-5s", "0", "0s", "5x", "m",
                           "1h,2m", "inf", "nan", "1e999h"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tilewright::cli
