#include <fmt/format.h>

#include <algorithm>

#include "cli/output/progress.h"
#include "cli/output/svg.h"
#include "cli/report/report_charts.h"
#include "cli/report/report_html.h"

namespace tilewright::cli {

const char* const kSpeedHeads =
    "<th class=\"n\">time</th><th class=\"n\">GFLOP/s</th><th class=\"n\">of roofline</th>"
    "<th class=\"n\">against default</th>";

namespace {

constexpr size_t kMostKnobs = 10;

std::string times(double ratio) { return fmt::format("{:.2f}x", ratio); }

std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

// "21.3 us (21.1 us to 21.6 us, 7 rounds)".
std::string interval_text(const MedianInterval& time, const char* unit) {
  if (time.samples < 3) return short_seconds(time.median);
  return fmt::format("{} ({} to {}, {} {})", short_seconds(time.median), short_seconds(time.low),
                     short_seconds(time.high), time.samples, unit);
}

// Why the winner won, by the intervals of the two best.
std::string decision_text(const ReportFinalists& finalists) {
  if (finalists.list.size() < 2) return "There was no runner-up to compare with.";
  const MedianInterval& winner = finalists.list[0].time;
  const MedianInterval& second = finalists.list[1].time;
  const char* unit = finalists.in_turns ? "rounds" : "samples";
  std::string out = fmt::format("The winner takes {}, the runner-up {}. ",
                                interval_text(winner, unit), interval_text(second, unit));
  if (winner.samples < 3 || second.samples < 3) {
    out += "These are too few for intervals.";
  } else if (winner.overlaps(second)) {
    out += "The intervals overlap: within the noise the two are equal.";
  } else if (winner.median < second.median) {
    out += fmt::format(
        "The intervals do not overlap: the winner is faster by {:.1f}%, beyond the "
        "noise.",
        100 * (second.median / winner.median - 1));
  } else {
    out += "The closing comparison, in which kernels run in turns, chose otherwise than these.";
  }
  if (!finalists.in_turns) {
    out += " Each was measured by itself; rounds of a closing comparison are not stored.";
  }
  return out;
}

std::string finalists_part(const ReportWorkload& w) {
  return "<div>\n<h3>Winner and runner-up</h3>\n" +
         fmt::format("<p class=\"decision\">{}</p>\n", escape_markup(decision_text(w.finalists))) +
         figure(finalists_chart(w.finalists),
                "Medians of the finalists with their intervals of 95%, by rank.") +
         "</div>\n";
}

std::string knobs_part(const ReportWorkload& w) {
  std::string out = "<div>\n<h3>Importance of knobs</h3>\n";
  if (!w.knobs.missing.empty()) {
    return out + fmt::format("<p class=\"soft\">{}.</p>\n</div>\n", escape_markup(w.knobs.missing));
  }
  out +=
      "<div class=\"scroll\"><table class=\"knobs\">\n<tr><th>knob</th><th class=\"n\">share</th>"
      "<th></th></tr>\n";
  const double most = std::max(w.knobs.knobs[0].share, 1e-9);
  for (size_t i = 0; i < std::min(kMostKnobs, w.knobs.knobs.size()); ++i) {
    const KnobShare& k = w.knobs.knobs[i];
    out += fmt::format("<tr><td><code>{}</code></td><td class=\"n\">{}</td>{}</tr>\n",
                       escape_markup(k.knob), percent(k.share), bar_cell(k.share / most));
  }
  return out + fmt::format(
                   "</table></div>\n<p class=\"soft\">The share of the variance of speed that "
                   "depends on the knob: permutation importance on trials that the model has not "
                   "seen. All knobs together explain {}. Knobs "
                   "that vary together share their importance.</p>\n</div>\n",
                   percent(w.knobs.explained));
}

std::string predictions_part(const ReportWorkload& w) {
  std::string out = "<div>\n<h3>Predicted against measured</h3>\n";
  if (!w.predictions.missing.empty()) {
    return out +
           fmt::format("<p class=\"soft\">{}.</p>\n</div>\n", escape_markup(w.predictions.missing));
  }
  return out +
         figure(predictions_chart(w.predictions),
                fmt::format("Each candidate as a model like the search's predicts it from earlier "
                            "candidates alone. Rank correlation: {:.2f} over {} candidates.",
                            w.predictions.rank_correlation, w.predictions.trials.size())) +
         "</div>\n";
}

std::string time_part(const ReportWorkload& w) {
  std::string out = "<div>\n<h3>Where the time went</h3>\n";
  if (w.time.elapsed <= 0) {
    return out + "<p class=\"soft\">The runs of this workload did not record it.</p>\n</div>\n";
  }
  const SecondsSpent& s = w.time.spent;
  const double known = s.proposing + s.building + s.reference + s.checks + s.timing;
  const std::pair<const char*, double> parts[] = {
      {"propose: model and schedules", s.proposing},
      {"compile", s.building},
      {"check: right values", s.reference},
      {"check: candidates", s.checks},
      {"measure", s.timing},
      {"other", std::max(0.0, w.time.elapsed - known)},
  };
  out += "<div class=\"scroll\"><table class=\"spent\">\n";
  for (const auto& [name, seconds] : parts) {
    const double share = seconds / std::max(w.time.elapsed, known);
    out +=
        fmt::format("<tr><td>{}</td><td class=\"n\">{:.1f} s</td><td class=\"n\">{}</td>{}</tr>\n",
                    name, seconds, percent(share), bar_cell(share));
  }
  return out + fmt::format("</table></div>\n<p class=\"soft\">{:.1f} s in all runs.</p>\n</div>\n",
                           w.time.elapsed);
}

// The note on a baseline: why it has no ratio, or how it compares.
std::string baseline_row(const ReportBench& bench, const ReportBaseline& b) {
  std::string ratio = bench.seconds > 0 ? times(b.seconds / bench.seconds) : "-";
  if (!b.counts) ratio = "not comparable";
  if (!bench.disturbed.empty()) ratio = "disturbed";
  return fmt::format(
      "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
      "class=\"wide\">{}</td></tr>\n",
      escape_markup(b.name), readable_seconds(b.seconds), ratio, escape_markup(b.note));
}

std::string baselines_part(const ReportWorkload& w) {
  std::string rows;
  if (w.bench) {
    const ReportBench& b = *w.bench;
    rows += fmt::format("<tr><td>this kernel</td><td class=\"n\">{}</td><td></td><td></td></tr>\n",
                        readable_seconds(b.seconds));
    if (b.default_seconds > 0) {
      rows += baseline_row(b, {.name = "untuned default", .seconds = b.default_seconds});
    }
    for (const ReportBaseline& one : b.baselines) rows += baseline_row(b, one);
  }
  if (rows.empty()) return "";
  std::string out =
      "<h3>Baselines</h3>\n<div class=\"scroll\"><table class=\"baselines\">\n<tr><th>baseline</th>"
      "<th class=\"n\">time</th><th class=\"n\">ratio</th><th>computed by</th></tr>\n" +
      rows + "</table></div>\n";
  if (!w.bench->disturbed.empty()) {
    out += fmt::format("<p class=\"soft\">Disturbed: {}.</p>\n", escape_markup(w.bench->disturbed));
  }
  return out;
}

std::string top_table(const ReportWorkload& w) {
  std::string out = fmt::format(
      "<h3>Fastest configs</h3>\n<div class=\"scroll\"><table>\n<tr>{}<th>sketch</th>"
      "<th>config</th></tr>\n",
      kSpeedHeads);
  for (const ReportConfig& c : w.top) {
    out += fmt::format("<tr>{}<td>{}{}</td><td class=\"wide\"><code>{}</code></td></tr>\n",
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
    out += fmt::format(
        "<tr><td class=\"n\">{}</td><td>{}</td><td class=\"wide\"><code>{}</code></td></tr>\n",
        readable_seconds(c.seconds), escape_markup(c.sketch), escape_markup(c.config));
  }
  return out + "</table></div>\n";
}

std::string failures_table(const ReportWorkload& w) {
  if (w.failures.empty()) return "<h3>Failures</h3>\n<p>None of the trials failed.</p>\n";
  std::string out =
      "<h3>Failures</h3>\n<div class=\"scroll\"><table>\n<tr><th>cause</th><th "
      "class=\"n\">trials</th>"
      "<th>for example</th></tr>\n";
  for (const ReportFailure& f : w.failures) {
    std::string reasons;
    for (const std::string& reason : f.reasons) {
      reasons += (reasons.empty() ? "" : "<br>") + escape_markup(reason);
    }
    out += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td><code>{}</code></td></tr>\n",
                       escape_markup(f.cause), f.count, reasons);
  }
  return out + "</table></div>\n";
}

// The times that the convergence chart leaves out.
std::string convergence_caption(const ReportWorkload& w) {
  std::string out =
      "Each dot is a valid candidate, each cross a failed one; the line is the best so far.";
  if (w.default_seconds > 0) {
    out += fmt::format(" The untuned default takes {}.", short_seconds(w.default_seconds));
  }
  return out;
}

std::string charts(const ReportWorkload& w) {
  std::string roofline =
      w.flops == 0
          ? "<p>This workload moves data and computes nothing: no roofline.</p>\n"
          : figure(roofline_chart(w),
                   fmt::format("Trials under the roofs of this machine; the bound is {}. Operands "
                               "that stay in the caches may lie above the slope.",
                               w.roof.bound_by));
  return "<div class=\"charts\">\n<div>\n<h3>Convergence</h3>\n" +
         figure(convergence_chart(w), convergence_caption(w)) + "</div>\n" + finalists_part(w) +
         predictions_part(w) + "<div>\n<h3>Roofline</h3>\n" + roofline + "</div>\n" +
         knobs_part(w) + time_part(w) + "</div>\n";
}

}  // namespace

std::string figure(const std::string& svg, const std::string& caption) {
  if (svg.empty()) return "";
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg,
                     escape_markup(caption));
}

std::string bar_cell(double share) {
  return fmt::format("<td><span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span></td>",
                     100 * std::clamp(share, 0.0, 1.0));
}

std::string name_of(const ReportWorkload& w) {
  return fmt::format("<bdi>{}</bdi>", escape_markup(w.label.empty() ? w.spec : w.label));
}

std::string anchor_of(const ReportWorkload& w) { return fmt::format("w{}-{}", w.hash, w.threads); }

std::string speed_cells(const ReportWorkload& w, double seconds) {
  std::string ratio = w.default_seconds > 0 ? times(w.default_seconds / seconds) : "-";
  const double share = w.roof.seconds / seconds;
  std::string of_roof = percent(share);
  if (share > 1 && !w.above_roof.empty()) of_roof += ": " + escape_markup(w.above_roof);
  return fmt::format(
      "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n{}\">{}</td>"
      "<td class=\"n\">{}</td>",
      readable_seconds(seconds),
      w.flops > 0 ? fmt::format("{:.1f}", w.flops / seconds * 1e-9) : std::string("-"),
      share > 1 ? " note" : "", of_roof, ratio);
}

std::string workload_section(const ReportWorkload& w) {
  std::string out = fmt::format(
      "<section id=\"{}\">\n<h2><bdi>{}</bdi></h2>\n<p class=\"soft\">{}{}, {:.4g} MFLOP, {:.4g} "
      "MB "
      "of operands, workload {}</p>\n<pre>{}</pre>\n",
      anchor_of(w), escape_markup(w.spec),
      w.label.empty() ? "" : fmt::format("<bdi>{}</bdi>: ", escape_markup(w.label)),
      database::threads_text(w.threads), w.flops * 1e-6, w.roof.bytes * 1e-6, w.hash,
      escape_markup(w.expr));
  if (!w.predicted.empty()) return out + predicted_table(w) + "</section>\n";
  if (w.best()) {
    out += charts(w) + baselines_part(w) + top_table(w);
  } else {
    out += "<p>No candidate was valid.</p>\n<div class=\"charts\">\n" + time_part(w) + "</div>\n";
  }
  return out + failures_table(w) + "</section>\n";
}

}  // namespace tilewright::cli
