#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "ir/ops/spec.h"

namespace tilewright::cli {
namespace {

constexpr double kPlainEvery = 5;  // seconds between lines where there is no terminal

}  // namespace

std::string readable_seconds(double s) {
  if (s <= 0) return "-";
  if (s < 1e-3) return fmt::format("{:.1f} us", s * 1e6);
  if (s < 1) return fmt::format("{:.3f} ms", s * 1e3);
  return fmt::format("{:.2f} s", s);
}

double seconds_left(const TuneProgress& p) {
  double pace = p.done > 0 ? p.elapsed / static_cast<double>(p.done) : 0;
  double left = pace * static_cast<double>(p.remaining);
  return p.limit > 0 ? std::clamp(p.limit - p.elapsed, 0.0, left) : left;
}

ProgressLine::ProgressLine(bool quiet, std::map<std::string, double> roofline_seconds)
    : quiet_(quiet), terminal_(isatty(2) != 0), roofline_(std::move(roofline_seconds)) {}

void ProgressLine::show(const TuneProgress& p) {
  if (quiet_) return;
  bool last = p.trials >= p.budget || p.remaining == 0;
  if (!terminal_ && !last && p.elapsed - last_ < kPlainEvery) return;
  last_ = p.elapsed;
  std::string name = p.workload->label.empty() ? p.workload->op : p.workload->label;
  int64_t failed = 0;
  std::string causes;
  for (auto [verdict, count] : p.invalid) {
    if (count == 0) continue;
    failed += count;
    causes += fmt::format(" {} {}", database::verdict_name(verdict), count);
  }
  std::string rate;
  if (p.best_seconds > 0) {
    rate = p.predicted ? "predicted"
                       : fmt::format("{:.1f} GFLOP/s", p.workload->flops / p.best_seconds * 1e-9);
  }
  auto least = roofline_.find(p.workload->hash());
  if (p.best_seconds > 0 && !p.predicted && least != roofline_.end()) {
    // The table says what may be the cause.
    const double share = least->second / p.best_seconds;
    rate += share > 1 ? " above the roofline" : fmt::format(" {:.0f}% of roofline", 100 * share);
  }
  std::string budget = p.budget < TuneOptions::kNoLimit ? fmt::format("/{}", p.budget) : "";
  std::string line = fmt::format(
      "[{}/{}] {} trials {}{} valid {} invalid {}{} best {} {} default {} {:.0f}s, {:.0f}s left",
      p.index + 1, p.count, name, p.trials, budget, p.valid, failed, causes,
      readable_seconds(p.best_seconds), rate, readable_seconds(p.default_seconds), p.elapsed,
      seconds_left(p));
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
