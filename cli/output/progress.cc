#include "cli/output/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "cli/output/table.h"
#include "ir/ops/spec.h"

namespace tilewright::cli {
namespace {

constexpr double kPlainEvery = 5;  // seconds between lines where there is no terminal

}  // namespace

std::string readable_seconds(double s) {
  if (s <= 0) return "-";
  if (s < 0.9995e-6) return fmt::format("{:.0f} ns", s * 1e9);
  if (s < 1e-3) return fmt::format("{:.1f} us", s * 1e6);
  if (s < 1) return fmt::format("{:.3f} ms", s * 1e3);
  return fmt::format("{:.2f} s", s);
}

double seconds_left(const TuneProgress& p) {
  double pace = p.done > 0 ? p.elapsed / static_cast<double>(p.done) : 0;
  double left = pace * static_cast<double>(p.remaining);
  return p.limit > 0 ? std::clamp(p.limit - p.elapsed, 0.0, left) : left;
}

std::string progress_text(const TuneProgress& p, double roofline_seconds, size_t width) {
  // By the order of the line; the number says what goes first where there is no room.
  struct Part {
    std::string text;
    int matters;
  };
  std::string rate, share, causes;
  if (p.best_seconds > 0 && p.predicted) rate = "predicted";
  if (p.best_seconds > 0 && !p.predicted) {
    rate = fmt::format("{:.1f} GFLOP/s", p.workload->flops / p.best_seconds * 1e-9);
    if (roofline_seconds > 0) {
      // The table says what may be the cause.
      const double fraction = roofline_seconds / p.best_seconds;
      share =
          fraction > 1 ? "above the roofline" : fmt::format("{:.0f}% of roofline", 100 * fraction);
    }
  }
  int64_t failed = 0;
  for (auto [verdict, count] : p.invalid) {
    failed += count;
    if (count > 0) causes += fmt::format(" {} {}", database::verdict_name(verdict), count);
  }
  const std::string budget = p.budget < TuneOptions::kNoLimit ? fmt::format("/{}", p.budget) : "";
  std::vector<Part> parts = {
      {fmt::format("trial {}{}", p.trials, budget), 9},
      {failed > 0 ? fmt::format("{} failed:{}", failed, causes) : "", 2},
      {failed > 0 ? fmt::format("{} failed", failed) : "", 3},
      {"best " + readable_seconds(p.best_seconds), 8},
      {rate, 6},
      {share, 5},
      {"default " + readable_seconds(p.default_seconds), 1},
      {fmt::format("{:.0f}s", p.elapsed), 4},
      {fmt::format("{:.0f}s left", seconds_left(p)), 7},
  };
  const std::string name = p.workload->label.empty() ? p.workload->op : p.workload->label;
  const std::string place = fmt::format("[{}/{}] ", p.index + 1, p.count);
  std::erase_if(parts, [](const Part& part) { return part.text.empty(); });
  while (true) {
    // The causes say how many failed, too.
    const bool has_causes =
        std::any_of(parts.begin(), parts.end(), [](const Part& part) { return part.matters == 2; });
    std::string text;
    for (const Part& part : parts) {
      if (part.matters != 3 || !has_causes) text += ", " + part.text;
    }
    const size_t room = width > place.size() + text.size() ? width - place.size() - text.size() : 0;
    if (room >= std::min<size_t>(name.size(), 12) || parts.size() < 2) {
      return fmt::format("{}{}{}", place, name.substr(0, room), text).substr(0, width);
    }
    parts.erase(std::min_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return a.matters < b.matters;
    }));
  }
}

ProgressLine::ProgressLine(bool quiet, std::map<std::string, double> roofline_seconds)
    : quiet_(quiet), terminal_(isatty(2) != 0), roofline_(std::move(roofline_seconds)) {}

void ProgressLine::show(const TuneProgress& p) {
  if (quiet_) return;
  bool last = p.trials >= p.budget || p.remaining == 0;
  if (!terminal_ && !last && p.elapsed - last_ < kPlainEvery) return;
  last_ = p.elapsed;
  const auto least = roofline_.find(p.workload->hash());
  // The last column stays free: a terminal may begin a new line behind it.
  const std::string line = progress_text(p, least == roofline_.end() ? 0 : least->second,
                                         terminal_width(STDERR_FILENO) - 1);
  if (terminal_) {
    std::cerr << "\r\x1b[K" << line << std::flush;
    dirty_ = true;
  } else {
    std::cerr << line << "\n";
  }
}

void ProgressLine::finish() {
  if (dirty_) std::cerr << "\n";
  dirty_ = false;
}

}  // namespace tilewright::cli
