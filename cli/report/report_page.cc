#include "cli/report/report_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "cli/output/svg.h"
#include "cli/report/report_charts.h"
#include "cli/report/report_html.h"
#include "cli/report/report_style.h"
#include "tuner/search/run_findings.h"

namespace tilewright::cli {

const char* const kLiveScript = R"(
const main = document.querySelector('main'), state = document.getElementById('state');
let tag = '';
async function look() {
  try {
    const answer = await fetch('/content', {headers: {'If-None-Match': tag}, cache: 'no-store'});
    if (answer.status === 200) {
      main.innerHTML = await answer.text();
      tag = answer.headers.get('ETag');
    }
    state.textContent = 'live: looks for new trials every 2 s';
  } catch (error) {
    state.textContent = 'tune-cli report --serve has ended: this is the last state';
  }
  setTimeout(look, 2000);
}
look();
)";

namespace {

std::string row_of_facts(const std::string& name, const std::string& value) {
  return fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape_markup(name),
                     escape_markup(value));
}

std::string joined_or_none(const std::vector<std::string>& list) {
  return list.empty() ? "not recorded" : fmt::format("{}", fmt::join(list, "; "));
}

std::string facts(const Report& r) {
  std::string out = "<table>\n";
  out += row_of_facts("written", r.date);
  out += row_of_facts("database", r.database);
  std::string target = fmt::format("{} on {}", r.target, r.identity.chip);
  if (r.identity.cores > 0) target += fmt::format(", {} multiprocessors", r.identity.cores);
  out += row_of_facts("target", target);
  out += row_of_facts("features", r.identity.features.empty() ? "none" : r.identity.features);
  out += row_of_facts("identity", r.identity.hash);
  out += row_of_facts("Tilewright", r.tool_version);
  out += row_of_facts("compiler", joined_or_none(r.compilers));
  for (const auto& [name, version] : r.baselines) out += row_of_facts(name, version);
  return out + "</table>\n";
}

std::string time_text(int64_t microseconds) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC",
                     fmt::gmtime(static_cast<std::time_t>(microseconds / 1000000)));
}

std::string runs_table(const Report& r) {
  std::string out =
      "<h2>Runs</h2>\n<div class=\"scroll\"><table>\n<tr><th>started</th><th class=\"n\">seed</th>"
      "<th>state</th><th>version</th><th>arguments</th></tr>\n";
  for (const database::TuningRun& run : r.runs) {
    out += fmt::format(
        "<tr><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td>"
        "<td class=\"wide\"><code>{}</code></td></tr>\n",
        time_text(run.started), run.seed, database::run_state_name(run.state),
        escape_markup(run.tool_version), escape_markup(without_findings(run.args)));
  }
  return out + "</table></div>\n";
}

// The ratio of a baseline's time to the kernel's, both of one contest.
std::string ratio_text(const ReportWorkload& w, const std::string& baseline) {
  if (!w.bench || w.bench->seconds <= 0) return "-";
  for (const ReportBaseline& b : w.bench->baselines) {
    if (b.name != baseline) continue;
    if (!b.counts) return "not comparable";
    if (!w.bench->disturbed.empty()) return "disturbed";
    return fmt::format("{:.2f}x", b.seconds / w.bench->seconds);
  }
  return "-";
}

// A row of the summary: `number` is that of the overview's chart.
std::string summary_row(const Report& r, const ReportWorkload& w, size_t number) {
  std::string out = fmt::format(
      "<tr><td class=\"n\">{}</td><td class=\"name\"><a href=\"#{}\">{}</a></td>"
      "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
      number, anchor_of(w), name_of(w), w.threads, w.trials.size(), w.valid());
  if (!w.best()) {
    return out +
           fmt::format("<td colspan=\"{}\">{}</td></tr>\n", 5 + r.baselines.size(),
                       w.predicted.empty() ? "no valid candidate" : "predicted, not measured");
  }
  out += bar_cell(w.roof.seconds / w.best()->seconds) + speed_cells(w, w.best()->seconds);
  for (const auto& [name, version] : r.baselines) {
    out += fmt::format("<td class=\"n\">{}</td>", ratio_text(w, name));
  }
  return out + "</tr>\n";
}

std::string summary(const Report& r) {
  std::string heads;
  for (const auto& [name, version] : r.baselines) {
    heads += fmt::format("<th class=\"n\">against {}</th>", escape_markup(name));
  }
  std::string out = fmt::format(
      "<div class=\"scroll\"><table id=\"summary\">\n<tr><th class=\"n\">#</th><th>workload</th>"
      "<th class=\"n\">threads</th><th class=\"n\">trials</th><th class=\"n\">valid</th>"
      "<th>roofline</th>{}{}</tr>\n",
      kSpeedHeads, heads);
  for (size_t i = 0; i < r.workloads.size(); ++i) out += summary_row(r, r.workloads[i], i + 1);
  out += "</table></div>\n<p class=\"soft\">Ratios above 1: Tilewright is faster.";
  if (r.baselines.empty()) {
    out +=
        " 'tune-cli bench --json SPEC &gt; bench.json' times baselines, and "
        "'--bench bench.json' shows them here.";
  }
  return out + "</p>\n";
}

std::string overview(const Report& r) {
  bool one_roof = std::all_of(r.workloads.begin(), r.workloads.end(), [&](const ReportWorkload& w) {
    return w.threads == r.workloads[0].threads && w.predicted.empty();
  });
  if (r.workloads.size() < 2 || !one_roof) return "";
  return figure(roofline_chart(r.workloads),
                "The best kernel of each workload by its number in the table. Numbers that would "
                "overlap are left out; each dot tells its name when the pointer rests on it.");
}

constexpr const char* kHead =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{}"
    "<title>Tilewright: tuning report</title>\n<style>{}</style>\n{}</head>\n<body>\n"
    "<h1>Tuning report</h1>\n";

}  // namespace

std::string report_content(const Report& r) {
  std::string out;
  if (r.searching) out += "<p class=\"searching\"><strong>A search is running.</strong></p>\n";
  out += "<h2>Workloads</h2>\n" + summary(r) + overview(r);
  for (const ReportWorkload& w : r.workloads) out += workload_section(w);
  return out + runs_table(r) + "<h2>Database and machine</h2>\n<div class=\"scroll\">" + facts(r) +
         "</div>\n";
}

std::string report_page(const Report& r) {
  // No script could run, whatever the database holds.
  constexpr const char* kPolicy =
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n";
  return fmt::format(kHead, kPolicy, kReportStyle, "") + "<main>\n" + report_content(r) +
         "</main>\n</body>\n</html>\n";
}

std::string live_page() {
  return fmt::format(
             kHead, "", kReportStyle,
             "<link rel=\"icon\" href=\"data:,\">\n<script src=\"/live.js\" defer></script>\n") +
         "<p id=\"state\">asks for the trials</p>\n<main></main>\n</body>\n</html>\n";
}

}  // namespace tilewright::cli
