// tune-cli report: the page, and what it says when there is nothing to tell.
#include <gmock/gmock.h>

#include <regex>

#include "database/store.h"
#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// The tag that is closed out of turn or left open; empty when all is in order.
std::string unbalanced_tag(const std::string& html) {
  std::vector<std::string> open;
  std::regex tag(R"(<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:"[^"]*"|[^>"])*)>)");
  for (std::sregex_iterator it(html.begin(), html.end(), tag), end; it != end; ++it) {
    std::string name = (*it)[2], rest = (*it)[3];
    if (name == "meta" || name == "br" || rest.ends_with("/")) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name) {
      return "/" + name;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++n;
  return n;
}

class ReportCommand : public Cli {
 protected:
  // Four measured trials of a small matmul, one of them the default.
  void tune() {
    Ran ran = run(std::string("tune --quiet --trials 4 --threads 1 ") + kSmall);
    ASSERT_EQ(ran.code, 0) << ran.err;
  }

  // A trial that failed, as if it had been measured after the others.
  void add_failure(const std::string& reason) {
    using namespace database;
    Store store = Store::open(dir_ / "tilewright.db", Mode::ReadWrite);
    Record record = store.records().records.at(0);
    record.verdict = database::Verdict::Wrong;
    record.reason = reason;
    record.samples.clear();
    record.median_seconds = record.best_seconds = 0;
    record.artifact_hash.clear();
    record.confirmed = record.is_default = false;
    record.config = R"({"name": "<b>&"})";
    record.created = 0;
    store.insert(record);
  }
};

TEST_F(ReportCommand, WritesAPageThatFetchesNothingAndSaysWhatItWrote) {
  tune();
  Ran ran = run("report --json -o page.html");
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json said = ran.json();
  std::string page = read(dir_ / "page.html");
  EXPECT_EQ(said["out"], "page.html");
  EXPECT_EQ(said["bytes"], page.size());
  ASSERT_EQ(said["results"].size(), 1u);
  EXPECT_EQ(said["results"][0]["trials"], 4);
  EXPECT_EQ(said["results"][0]["valid"], 4);
  EXPECT_GT(said["results"][0]["best"]["seconds"], 0);
  // From the run's row.
  EXPECT_TRUE(said["results"][0]["finalists"]["in_turns"]);
  EXPECT_TRUE(said["results"][0]["finalists"]["list"][0]["winner"]);
  for (const char* part : {"elapsed", "proposing", "building", "checks", "timing"}) {
    EXPECT_GT(said["results"][0]["spent_s"][part], 0) << part;
  }
  EXPECT_THAT(page, Not(HasSubstr("findings"))) << "the arguments are shown alone";
  EXPECT_EQ(unbalanced_tag(page), "");
  EXPECT_EQ(count(page, "aria-label=\"Convergence of"), 1u);
  EXPECT_EQ(count(page, "aria-label=\"Roofline of"), 1u);
  for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "<script", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST_F(ReportCommand, ShowsConvergenceRooflineConfigsFailuresAndMetadata) {
  tune();
  add_failure("element [0, 1]: 3 instead of 4\nand more lines");
  ASSERT_EQ(run("report -o page.html").code, 0);
  std::string page = read(dir_ / "page.html");
  EXPECT_EQ(count(page, "<path class=\"cross failed\""), 1u);
  EXPECT_EQ(count(page, "<polyline class=\"line best\""), 1u);
  EXPECT_EQ(count(page, "<polyline class=\"line roof\""), 1u);
  EXPECT_THAT(page, HasSubstr("<td>wrong</td><td class=\"n\">1</td><td><code>element [0, 1]: 3 "
                              "instead of 4</code></td>"));
  EXPECT_THAT(page, HasSubstr("1.00x")) << "the default against itself";
  Json target = run("targets --json").json();
  EXPECT_THAT(page, HasSubstr("on " + target["chip"].get<std::string>()));
  EXPECT_THAT(page, HasSubstr("<th class=\"n\">seed</th>"));
  EXPECT_THAT(page, HasSubstr("<td>finished</td>"));
}

TEST_F(ReportCommand, TextOfTheDatabaseIsEscaped) {
  tune();
  add_failure("<script>alert('x')</script> & \"more\"");
  ASSERT_EQ(run("report -o page.html").code, 0);
  std::string page = read(dir_ / "page.html");
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page,
              HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more&quot;"));
  EXPECT_EQ(unbalanced_tag(page), "");
}

TEST_F(ReportCommand, WhatDoesNoArithmeticHasNoRoofline) {
  ASSERT_EQ(
      run("tune --quiet --trials 2 --threads 1 gather:rows=8,cols=8,index=4 softmax:m=4,n=8").code,
      0);
  ASSERT_EQ(run("report -o page.html").code, 0);
  std::string page = read(dir_ / "page.html");
  EXPECT_THAT(page, HasSubstr("computes nothing: no roofline"));
  EXPECT_EQ(count(page, "aria-label=\"Convergence of"), 2u);
  EXPECT_EQ(count(page, "aria-label=\"Roofline of"), 2u) << "one, and the overview";
  EXPECT_EQ(unbalanced_tag(page), "");
}

// report_database writes what tuning leaves behind, with long and hostile names.
class ReportOfManyWorkloads : public Cli {
 protected:
  void make(int workloads, int trials) {
    const Ran made = shell(std::string(TILEWRIGHT_BINARY_DIR "/report_database tilewright.db ") +
                           std::to_string(workloads) + " " + std::to_string(trials));
    ASSERT_EQ(made.code, 0) << made.err;
  }

  std::string page(const std::string& options = "") {
    const Ran ran = run("report -o page.html " + options);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return read(dir_ / "page.html");
  }

  // The first match's group.
  static std::string found(const std::string& text, const std::string& expression) {
    std::smatch match;
    return std::regex_search(text, match, std::regex(expression)) ? match[1].str() : "";
  }
};

TEST_F(ReportOfManyWorkloads, ConvergenceStartsAtTheFirstCandidate) {
  make(1, 20);
  const std::string html = page();
  const std::string x = found(html, "circle class=\"dot trial\" cx=\"([0-9.]+)\"");
  const std::string y = found(html, "circle class=\"dot trial\" cx=\"[0-9.]+\" cy=\"([0-9.]+)\"");
  EXPECT_THAT(html, HasSubstr("class=\"line best\" points=\"" + x + "," + y + " "));
  EXPECT_EQ(count(html, "candidate 1: "), 2u) << "in convergence and roofline";
  // It is 90 times slower than the first candidate, and would flatten the others.
  EXPECT_THAT(html, HasSubstr("The untuned default takes "));
  EXPECT_EQ(count(html, "class=\"line default\" points"), 0u);
  EXPECT_EQ(unbalanced_tag(html), "");
}

TEST_F(ReportOfManyWorkloads, TheWinnerIsExplainedByIntervals) {
  make(1, 20);
  EXPECT_THAT(page(), HasSubstr("The intervals do not overlap: the winner is faster by "));
  const Json row = run("report --json -o page.html").json()["results"][0];
  const Json& finalists = row["finalists"];
  EXPECT_TRUE(finalists["in_turns"]);
  ASSERT_EQ(finalists["list"].size(), 3u);
  EXPECT_TRUE(finalists["list"][0]["winner"]);
  EXPECT_LT(finalists["list"][0]["high"], finalists["list"][1]["low"]);
  EXPECT_EQ(finalists["list"][0]["samples"], 5);
  EXPECT_EQ(row["spent_s"]["building"], 9);
  EXPECT_EQ(row["knobs"], nullptr) << "too few trials";
}

TEST_F(ReportOfManyWorkloads, WithoutRoundsSamplesOfTrialsExplainLess) {
  make(1, 13);  // no closing comparison
  EXPECT_THAT(page(), HasSubstr("rounds of a closing comparison are not stored"));
  EXPECT_FALSE(run("report --json -o page.html").json()["results"][0]["finalists"]["in_turns"]);
  EXPECT_THAT(page(), HasSubstr("did not record it"));
}

TEST_F(ReportOfManyWorkloads, KnobsAndPredictionsComeWithEnoughTrials) {
  make(2, 60);
  const Json results = run("report --json -o page.html").json()["results"];
  for (const Json& row : results) {
    EXPECT_EQ(row["knobs"]["list"][0]["knob"], "C.vi.rows");
    EXPECT_GT(row["knobs"]["explained"], 0.5);
    EXPECT_GT(row["predictions"]["rank_correlation"], 0.3);
    EXPECT_GT(row["predictions"]["trials"], 30);
  }
  EXPECT_THAT(page(), HasSubstr("Rank correlation: 0."));
}

TEST_F(ReportOfManyWorkloads, BaselinesOfBenchStandBesideTheKernel) {
  make(2, 20);
  const Json results = run("report --json -o page.html").json()["results"];
  const double best = results[0]["best"]["seconds"];
  Json bench = {{"peers", {{"oneDNN", "3.5"}, {"<b>", "1"}}}, {"results", Json::array()}};
  bench["results"].push_back({{"spec", results[0]["spec"]},
                              {"threads", results[0]["threads"]},
                              {"seconds", best},
                              {"default_seconds", 40 * best},
                              {"peers",
                               {{"oneDNN", {{"seconds", 1.25 * best}, {"note", "brgemm"}}},
                                {"<b>", {{"seconds", 2 * best}, {"counts", false}}}}}});
  bench["results"].push_back({{"spec", "matmul:m=1,n=1,k=1"}, {"threads", 1}, {"seconds", 1}});
  std::ofstream(dir_ / "bench.json") << bench;
  const std::string html = page("--bench bench.json");
  EXPECT_THAT(html, HasSubstr("<th class=\"n\">against oneDNN</th>"));
  EXPECT_EQ(count(html, "1.25x"), 2u) << "in the summary and below the workload";
  EXPECT_THAT(html, HasSubstr("40.00x"));
  EXPECT_THAT(html, HasSubstr("<td class=\"wide\">brgemm</td>"));
  EXPECT_EQ(count(html, "not comparable"), 2u);
  EXPECT_EQ(count(html, "class=\"line baseline\""), 1u) << "only what can be compared";
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
  EXPECT_THAT(run("report --bench bench.json").err,
              HasSubstr("--bench: the report has no workload 'matmul:m=1,n=1,k=1' on 1 thread"));
  bench["results"][0]["disturbance"] = "another process";
  std::ofstream(dir_ / "bench.json") << bench;
  EXPECT_THAT(page("--bench bench.json"), Not(HasSubstr("1.25x")));
  EXPECT_THAT(page("--bench bench.json"), HasSubstr("Disturbed: another process."));
  const Ran none = run("report --bench none.json");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--bench: cannot read 'none.json'"));
}

TEST_F(ReportOfManyWorkloads, HostileTextsAreEscapedEverywhere) {
  make(3, 40);
  const std::string html = page();
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("&lt;img src=x"));
  EXPECT_THAT(html, HasSubstr("content=\"default-src 'none'; style-src"));
  EXPECT_EQ(unbalanced_tag(html), "");
}

TEST_F(ReportCommand, AMissNamesTheCommandThatWouldTuneAndWritesNothing) {
  tune();
  Ran miss = run("report -o page.html matmul:m=5,n=5,k=5 --threads 1");
  EXPECT_EQ(miss.code, 7);
  EXPECT_THAT(miss.err, HasSubstr("never tuned: the database has no record of it; this would tune "
                                  "it: tune-cli tune 'matmul:m=5,n=5,k=5' --db tilewright.db "
                                  "--threads 1"));
  Ran threads = run("report -o page.html --threads 63");
  EXPECT_EQ(threads.code, 7);
  EXPECT_THAT(threads.err, HasSubstr("'tilewright.db' holds no trial for the target"));
  EXPECT_FALSE(fs::exists(dir_ / "page.html"));
  EXPECT_EQ(run("report -o page.html --db none.db").code, 5);
}

TEST_F(ReportCommand, BadOutputsAreRefused) {
  tune();
  Ran folder = run("report -o /nonexistent/page.html");
  EXPECT_EQ(folder.code, 2);
  EXPECT_THAT(folder.err,
              HasSubstr("cannot write '/nonexistent/page.html': No such file or directory"));
  Ran both = run("report --json -o -");
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--json and '-o -' both need standard output"));
  Ran standard = run("report -o -");
  EXPECT_EQ(standard.code, 0);
  EXPECT_THAT(standard.out, testing::StartsWith("<!DOCTYPE html>"));
}

}  // namespace
}  // namespace tilewright::cli
