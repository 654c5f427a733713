#include "cli/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output/progress.h"
#include "cli/output/svg.h"

namespace tilewright::cli {
namespace {

// "2 ms", "500 us": the round times of an axis.
std::string time_tick(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

std::string tooltip(const ReportTrial& t) {
  bool valid = t.verdict == database::Verdict::Valid;
  return fmt::format("trial {}{}: {}\n{} {}", t.number, t.is_default ? ", the default" : "",
                     valid ? readable_seconds(t.seconds)
                           : fmt::format("{}: {}", database::verdict_name(t.verdict), t.reason),
                     t.sketch, t.config);
}

double gflops(double flops, double seconds) { return flops / seconds * 1e-9; }

// The least and the greatest of what a chart has to show.
struct Span {
  double min = 0, max = 0;
  void take(double v) {
    min = min == 0 ? v : std::min(min, v);
    max = std::max(max, v);
  }
};

double intensity(const ReportWorkload& w) { return w.flops / w.roof.bytes; }

// A chart with both roofs, wide enough for `x` and `y`.
Chart roofs(const std::string& title, const MachineRates& rates, Span x, Span y) {
  double peak = rates.f32_flops * 1e-9, bandwidth = rates.read_bytes * 1e-9;
  double ridge = peak / bandwidth;
  x.take(ridge / 4);
  x.take(ridge * 4);
  y.take(peak);
  Axis across =
      Axis::logarithmic("arithmetic intensity, FLOP per byte of the operands", x.min, x.max);
  y.take(std::min(peak, bandwidth * across.min));
  Axis up = Axis::logarithmic("GFLOP/s", y.min, y.max);
  Chart chart(title, across, up);
  chart.line({{across.min, bandwidth * across.min}, {ridge, peak}, {across.max, peak}}, "roof");
  chart.label({across.max, peak}, fmt::format("{:.0f} GFLOP/s", peak), "words roof");
  chart.label({ridge / 3.5, peak / 3.5}, fmt::format("{:.0f} GB/s", bandwidth), "words roof");
  return chart;
}

}  // namespace

std::string convergence_chart(const ReportWorkload& w) {
  Span time;
  for (const ReportTrial& t : w.trials) {
    if (t.seconds > 0) time.take(t.seconds);
  }
  if (time.max == 0) return "";
  if (w.default_seconds > 0) time.take(w.default_seconds);
  Axis across{"trial", 0, static_cast<double>(w.trials.size()) + 1, false, {}};
  Axis up = Axis::logarithmic("seconds a run", time.min, time.max);
  up.text = time_tick;
  Chart chart(fmt::format("Convergence of {}", w.spec), across, up);
  if (w.default_seconds > 0) {
    chart.line({{across.min, w.default_seconds}, {across.max, w.default_seconds}}, "default");
    chart.label({across.max, w.default_seconds}, "untuned default", "words roof");
  }
  std::vector<Point> best_so_far;
  double best = 0;
  for (const ReportTrial& t : w.trials) {
    double x = t.number;
    if (t.seconds == 0) {
      chart.cross({x, up.min}, "failed", tooltip(t));
      continue;
    }
    chart.dot({x, t.seconds}, t.is_default ? 4 : 2.5, t.is_default ? "default" : "trial",
              tooltip(t));
    if (best == 0 || t.seconds < best) {
      if (best > 0) best_so_far.push_back({x, best});
      best = t.seconds;
      best_so_far.push_back({x, best});
    }
  }
  best_so_far.push_back({static_cast<double>(w.trials.size()), best});
  chart.line(best_so_far, "best");
  return chart.svg();
}

std::string roofline_chart(const ReportWorkload& w) {
  const ReportConfig* best = w.best();
  if (!best || w.flops == 0) return "";
  Span x, y;
  x.take(intensity(w));
  y.take(gflops(w.flops, best->seconds));
  for (const ReportTrial& t : w.trials) {
    if (t.seconds > 0) y.take(gflops(w.flops, t.seconds));
  }
  Chart chart = roofs(fmt::format("Roofline of {}", w.spec), w.rates, x, y);
  for (const ReportTrial& t : w.trials) {
    if (t.seconds == 0) continue;
    chart.dot({intensity(w), gflops(w.flops, t.seconds)}, t.is_default ? 4 : 2.5,
              t.is_default ? "default" : "trial", tooltip(t));
  }
  double reached = gflops(w.flops, best->seconds);
  chart.dot({intensity(w), reached}, 4, "best",
            fmt::format("best: {}\n{}", readable_seconds(best->seconds), best->config));
  chart.label({intensity(w), reached}, fmt::format("{:.1f}", reached), "words");
  return chart.svg();
}

std::string roofline_chart(const std::vector<ReportWorkload>& workloads) {
  Span x, y;
  for (const ReportWorkload& w : workloads) {
    if (!w.best() || w.flops == 0) continue;
    x.take(intensity(w));
    y.take(gflops(w.flops, w.best()->seconds));
  }
  if (x.max == 0) return "";
  Chart chart = roofs("Roofline of all workloads", workloads[0].rates, x, y);
  for (const ReportWorkload& w : workloads) {
    if (!w.best() || w.flops == 0) continue;
    double reached = gflops(w.flops, w.best()->seconds);
    chart.dot({intensity(w), reached}, 4, "best",
              fmt::format("{}\n{}, {:.1f} GFLOP/s", w.spec, readable_seconds(w.best()->seconds),
                          reached));
    chart.label({intensity(w), reached},
                w.label.empty() ? w.spec.substr(0, w.spec.find(':')) : w.label, "words");
  }
  return chart.svg();
}

}  // namespace tilewright::cli
