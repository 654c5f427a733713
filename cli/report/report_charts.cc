#include "cli/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/output/progress.h"
#include "cli/output/svg.h"

namespace tilewright::cli {
namespace {

// Lines of baselines that are slower than this, times the slowest candidate, would flatten the chart.
constexpr double kFarSlower = 3;
constexpr size_t kFewNames = 10;    // so many workloads are named in the overview
constexpr size_t kNameLength = 22;  // characters

std::string tooltip(const ReportTrial& t) {
  const std::string name =
      t.is_default ? "the untuned default" : fmt::format("candidate {}", t.number);
  const std::string outcome = t.verdict == database::Verdict::Valid
                                  ? readable_seconds(t.seconds)
                                  : fmt::format("{}: {}", verdict_name(t.verdict), t.reason);
  return fmt::format("{}: {}\n{} {}", name, outcome, t.sketch, t.config);
}

double gflops(double flops, double seconds) { return flops / seconds * 1e-9; }

// The least and the greatest of what a logarithmic axis has to show.
struct Span {
  double min = 0, max = 0;

  void take(double v) {
    if (!(v > 0) || std::isinf(v)) return;
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

// A line over the whole width, with words at its right end.
void level(Chart& chart, const Axis& across, double seconds, const std::string& words,
           std::string_view style) {
  chart.line({{across.min, seconds}, {across.max, seconds}}, style);
  chart.label({across.max, seconds}, shortened(words, kNameLength), "words");
}

struct Level {
  std::string name;
  double seconds;
  const char* style;
};

// The untuned default and the baselines, the fastest first.
std::vector<Level> levels_of(const ReportWorkload& w) {
  std::vector<Level> levels;
  if (w.default_seconds > 0) levels.push_back({"untuned default", w.default_seconds, "default"});
  if (w.bench && w.bench->disturbed.empty()) {
    for (const ReportBaseline& b : w.bench->baselines) {
      if (b.counts) levels.push_back({b.name, b.seconds, "baseline"});
    }
  }
  std::stable_sort(levels.begin(), levels.end(),
                   [](const Level& a, const Level& b) { return a.seconds < b.seconds; });
  return levels;
}

}  // namespace

std::string short_seconds(double seconds) {
  if (seconds < 1e-6) return fmt::format("{:.4g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.4g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} s", seconds);
}

std::string convergence_chart(const ReportWorkload& w) {
  Span time;
  double last = 0;
  for (const ReportTrial& t : w.trials) {
    if (!t.is_default) time.take(t.seconds);
    last = std::max<double>(last, t.number);
  }
  if (time.max == 0) return "";
  std::vector<Level> levels = levels_of(w);
  const double far = kFarSlower * time.max;
  std::erase_if(levels, [&](const Level& l) { return l.seconds > far; });
  for (const Level& l : levels) time.take(l.seconds);
  Axis across{"candidate, in the order of measuring", 0, last + 1, false, {}};
  across.text = [](double n) { return n >= 1 && n == std::floor(n) ? fmt::format("{}", n) : ""; };
  Axis up = Axis::logarithmic("seconds a run", time.min, time.max);
  up.text = short_seconds;
  Chart chart(fmt::format("Convergence of {}", w.spec), across, up);
  std::vector<Point> best_so_far;
  double best = 0;
  for (const ReportTrial& t : w.trials) {
    if (t.is_default) continue;
    double x = t.number;
    if (t.seconds == 0) {
      chart.cross({x, up.min}, "failed", tooltip(t));
      continue;
    }
    chart.dot({x, t.seconds}, 2.5, "trial", tooltip(t));
    if (best == 0 || t.seconds < best) {
      if (best > 0) best_so_far.push_back({x, best});
      best = t.seconds;
      best_so_far.push_back({x, best});
    }
  }
  best_so_far.push_back({last, best});
  chart.line(best_so_far, "best");
  for (const Level& l : levels) level(chart, across, l.seconds, l.name, l.style);
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
  std::vector<std::pair<Point, std::string>> names;
  for (size_t i = 0; i < workloads.size(); ++i) {
    const ReportWorkload& w = workloads[i];
    if (!w.best() || w.flops == 0) continue;
    double reached = gflops(w.flops, w.best()->seconds);
    chart.dot({intensity(w), reached}, 4, "best",
              fmt::format("{}: {}\n{}, {:.1f} GFLOP/s", i + 1, w.label.empty() ? w.spec : w.label,
                          readable_seconds(w.best()->seconds), reached));
    std::string name = std::to_string(i + 1);
    if (workloads.size() <= kFewNames) {
      name += " " + shortened(w.label.empty() ? w.spec : w.label, kNameLength);
    }
    names.emplace_back(Point{intensity(w), reached}, std::move(name));
  }
  // All dots come first: words keep away from them.
  for (const auto& [at, name] : names) chart.label(at, name, "words");
  return chart.svg();
}

std::string finalists_chart(const ReportFinalists& finalists) {
  const size_t count = finalists.list.size();
  if (count < 2 || finalists.list[0].time.median <= 0) return "";
  // Kernels far slower than the runner-up would flatten the intervals that decide.
  const double far = 2 * finalists.list[1].time.high;
  Span time;
  for (const ReportFinalist& f : finalists.list) {
    if (f.time.median > far) continue;
    time.take(f.time.low);
    time.take(f.time.high);
  }
  const double air = std::max(0.08 * (time.max - time.min), 0.01 * time.max);
  Axis across{"seconds a run", std::max(0.0, time.min - air), time.max + air, false, short_seconds};
  Axis up{"rank", -static_cast<double>(count) - 0.5, -0.5, false, {}};
  up.text = [](double rank) {
    return rank == std::floor(rank) ? fmt::format("{}", -rank) : std::string();
  };
  Chart chart("Finalists with the intervals of their medians", across, up);
  for (size_t i = 0; i < count; ++i) {
    const ReportFinalist& f = finalists.list[i];
    if (f.time.median > far) continue;
    const double rank = -static_cast<double>(i) - 1;
    const char* style = i == 0 ? "best" : f.is_default ? "default" : "trial";
    chart.line({{f.time.low, rank}, {f.time.high, rank}}, i == 0 ? "winner" : style);
    chart.dot(
        {f.time.median, rank}, 4, style,
        fmt::format("{}: {} ({} to {})\n{} {}", i + 1, short_seconds(f.time.median),
                    short_seconds(f.time.low), short_seconds(f.time.high), f.sketch, f.config));
  }
  return chart.svg();
}

std::string predictions_chart(const Predictions& predictions) {
  if (predictions.trials.empty()) return "";
  double most = 1;
  for (const PredictedTrial& t : predictions.trials) {
    most = std::max({most, t.predicted, std::min(t.measured, 2.0)});
  }
  Axis across{"predicted speed, the best so far being 1", 0, 1.05 * most, false, {}};
  Axis up{"measured speed", 0, 1.05 * most, false, {}};
  Chart chart("Measured over predicted speed", across, up);
  chart.line({{0, 0}, {most, most}}, "default");
  for (const PredictedTrial& t : predictions.trials) {
    chart.dot({std::clamp(t.predicted, 0.0, most), std::clamp(t.measured, 0.0, most)}, 2.5, "trial",
              fmt::format("candidate {}: predicted {:.2f}, measured {:.2f}", t.number, t.predicted,
                          t.measured));
  }
  return chart.svg();
}

}  // namespace tilewright::cli
