#include "cli/report/report_page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

#include "cli/output/progress.h"
#include "cli/output/svg.h"
#include "cli/report/report_charts.h"

namespace tilewright::cli {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2127; --soft: #5b6570; --rule: #d9dee4;
  --best: #1462c4; --trial: #8a949f; --default: #a3590a; --failed: #c02b2b; --roof: #1c2127; }
@media (prefers-color-scheme: dark) { :root { --page: #14181d; --ink: #e4e8ec; --soft: #9aa5b1;
  --rule: #313a44; --best: #6aaeff; --trial: #77828e; --default: #e2a050; --failed: #ff7a7a;
  --roof: #e4e8ec; } }
body { margin: 0 auto; padding: 1.5rem; max-width: 84rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
a { color: var(--best); } p { max-width: 60rem; }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th { color: var(--soft); font-weight: 600; }
.scroll { overflow-x: auto; } .soft { color: var(--soft); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 1rem; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .9em; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.words { fill: var(--ink); } .grid { stroke: var(--rule); }
.line { fill: none; stroke-width: 2; } .line.roof { stroke: var(--roof); stroke-width: 1.5; }
.line.best { stroke: var(--best); }
.line.default { stroke: var(--default); stroke-width: 1; stroke-dasharray: 5 4; }
.dot.best { fill: var(--best); } .dot.trial { fill: var(--trial); fill-opacity: .7; }
.dot.default { fill: var(--default); }
.cross { fill: none; stroke: var(--failed); stroke-width: 1.5; }
)";

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
        "<tr><td>{}</td><td "
        "class=\"n\">{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
        time_text(run.started), run.seed, database::run_state_name(run.state),
        escape_markup(run.tool_version), escape_markup(run.args));
  }
  return out + "</table></div>\n";
}

std::string anchor(const ReportWorkload& w) { return fmt::format("w{}-{}", w.hash, w.threads); }

std::string times(double ratio) { return fmt::format("{:.2f}x", ratio); }

// Seconds, GFLOP/s, share of the roofline, and ratio to the default, as cells.
std::string speed_cells(const ReportWorkload& w, double seconds) {
  std::string ratio = w.default_seconds > 0 ? times(w.default_seconds / seconds) : "-";
  const double share = w.roof.seconds / seconds;
  std::string of_roof = fmt::format("{:.0f}%", 100 * share);
  if (share > 1) of_roof += ": " + w.above_roof;
  return fmt::format(
      "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td class=\"n\">{}</td>",
      readable_seconds(seconds),
      w.flops > 0 ? fmt::format("{:.1f}", w.flops / seconds * 1e-9) : std::string("-"), of_roof,
      ratio);
}

constexpr const char* kSpeedHeads =
    "<th class=\"n\">time</th><th class=\"n\">GFLOP/s</th><th class=\"n\">of roofline</th>"
    "<th class=\"n\">against default</th>";

std::string summary(const Report& r) {
  std::string out = fmt::format(
      "<div class=\"scroll\"><table>\n<tr><th>workload</th><th class=\"n\">threads</th>"
      "<th class=\"n\">trials</th><th class=\"n\">valid</th>{}</tr>\n",
      kSpeedHeads);
  for (const ReportWorkload& w : r.workloads) {
    out += fmt::format(
        "<tr><td><a href=\"#{}\">{}</a></td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td>{}</tr>\n",
        anchor(w), escape_markup(w.label.empty() ? w.spec : w.label), w.threads, w.trials.size(),
        w.valid(),
        w.best()
            ? speed_cells(w, w.best()->seconds)
            : fmt::format("<td colspan=\"4\">{}</td>",
                          w.predicted.empty() ? "no valid candidate" : "predicted, not measured"));
  }
  return out + "</table></div>\n";
}

std::string top_table(const ReportWorkload& w) {
  std::string out = fmt::format(
      "<h3>Fastest configs</h3>\n<div class=\"scroll\"><table>\n<tr>{}<th>sketch</th>"
      "<th>config</th></tr>\n",
      kSpeedHeads);
  for (const ReportConfig& c : w.top) {
    out += fmt::format("<tr>{}<td>{}{}</td><td><code>{}</code></td></tr>\n",
                       speed_cells(w, c.seconds), escape_markup(c.sketch),
                       c.confirmed ? ", measured again" : "", escape_markup(c.config));
  }
  return out + "</table></div>\n";
}

std::string predicted_table(const ReportWorkload& w) {
  std::string out =
      "<h3>Predicted, not measured</h3>\n<div class=\"scroll\"><table>\n<tr><th class=\"n\">"
      "the model expects</th><th>sketch</th><th>config</th></tr>\n";
  for (const ReportConfig& c : w.predicted) {
    out +=
        fmt::format("<tr><td class=\"n\">{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
                    readable_seconds(c.seconds), escape_markup(c.sketch), escape_markup(c.config));
  }
  return out + "</table></div>\n";
}

std::string failures_table(const ReportWorkload& w) {
  if (w.failures.empty()) return "<h3>Failures</h3>\n<p>None of the trials failed.</p>\n";
  std::string out =
      "<h3>Failures</h3>\n<table>\n<tr><th>cause</th><th class=\"n\">trials</th>"
      "<th>for example</th></tr>\n";
  for (const ReportFailure& f : w.failures) {
    std::string reasons;
    for (const std::string& reason : f.reasons) {
      reasons += (reasons.empty() ? "" : "<br>") + escape_markup(reason);
    }
    out += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td><code>{}</code></td></tr>\n",
                       escape_markup(f.cause), f.count, reasons);
  }
  return out + "</table>\n";
}

std::string figure(const std::string& svg, const std::string& caption) {
  if (svg.empty()) return "";
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg,
                     escape_markup(caption));
}

std::string charts(const ReportWorkload& w) {
  std::string roofline = figure(
      roofline_chart(w),
      fmt::format("Trials under the measured roofs of this machine; the bound is {}. Operands that "
                  "stay in the caches may lie above the slope.",
                  w.roof.bound_by));
  if (w.flops == 0)
    roofline = "<p>This workload moves data and computes nothing: no roofline.</p>\n";
  return "<div class=\"charts\">\n" +
         figure(
             convergence_chart(w),
             "Each dot is a valid trial, each cross a failed one; the line is the best so far.") +
         roofline + "</div>\n";
}

std::string section(const ReportWorkload& w) {
  std::string out = fmt::format(
      "<section id=\"{}\">\n<h2>{}</h2>\n<p class=\"soft\">{}{} threads, {:.4g} MFLOP, {:.4g} MB "
      "of "
      "operands, workload {}</p>\n<pre>{}</pre>\n",
      anchor(w), escape_markup(w.spec), w.label.empty() ? "" : escape_markup(w.label) + ": ",
      w.threads, w.flops * 1e-6, w.roof.bytes * 1e-6, w.hash, escape_markup(w.expr));
  if (!w.predicted.empty()) return out + predicted_table(w) + "</section>\n";
  out += w.best() ? charts(w) + top_table(w) : "<p>No candidate was valid.</p>\n";
  return out + failures_table(w) + "</section>\n";
}

std::string overview(const Report& r) {
  bool one_roof = std::all_of(r.workloads.begin(), r.workloads.end(), [&](const ReportWorkload& w) {
    return w.threads == r.workloads[0].threads && w.predicted.empty();
  });
  if (r.workloads.size() < 2 || !one_roof) return "";
  return figure(roofline_chart(r.workloads), "The best kernel of each workload.");
}

}  // namespace

std::string report_page(const Report& r) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Tilewright: tuning report</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>Tuning report</h1>\n",
      kStyle);
  out += facts(r) + "<h2>Workloads</h2>\n" + summary(r) + overview(r);
  for (const ReportWorkload& w : r.workloads) out += section(w);
  return out + runs_table(r) + "</body>\n</html>\n";
}

}  // namespace tilewright::cli
