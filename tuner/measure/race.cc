#include "tuner/measure/race.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/machine/timer.h"

namespace tilewright {
namespace {

constexpr double kNoBound = -std::numeric_limits<double>::infinity();

}  // namespace

void Race::add(size_t kernel, double seconds, bool disturbed) {
  kernels_[kernel].rounds.push_back({seconds, disturbed});
}

void Race::fail(size_t kernel) { kernels_[kernel] = {.out = true, .failed = true}; }

std::vector<double> Race::counted(const Kernel& kernel) {
  std::vector<double> all, undisturbed;
  for (const Round& r : kernel.rounds) {
    all.push_back(r.seconds);
    if (!r.disturbed) undisturbed.push_back(r.seconds);
  }
  return undisturbed.empty() ? all : undisturbed;
}

double Race::median(const Kernel& kernel) {
  const std::vector<double> seconds = counted(kernel);
  return seconds.empty() ? 0 : median_of(seconds);
}

size_t Race::fastest() const {
  size_t best = kernels_.size();
  for (size_t k = 0; k < kernels_.size(); ++k) {
    if (kernels_[k].out || kernels_[k].rounds.empty()) continue;
    if (best == kernels_.size() || median(kernels_[k]) < median(kernels_[best])) best = k;
  }
  return best;
}

std::vector<double> Race::ratios(size_t a, size_t b) const {
  const std::vector<Round>&first = kernels_[a].rounds, &second = kernels_[b].rounds;
  std::vector<double> all, undisturbed;
  for (size_t r = 0; r < std::min(first.size(), second.size()); ++r) {
    all.push_back(std::log(first[r].seconds / second[r].seconds));
    if (!first[r].disturbed && !second[r].disturbed) undisturbed.push_back(all.back());
  }
  std::vector<double>& used = undisturbed.empty() ? all : undisturbed;
  std::ranges::sort(used);
  return used;
}

// The bets are on all probabilities of heads above a half at once, each of which multiplies its stake by twice the
// probability of what fell. By Ville's inequality their mean exceeds 1 / error with a chance of `error` at most. It is
//
//   2^(n+1) integral of p^s (1-p)^(n-s) from 1/2 to 1 = sum of C(n+1, j) for j <= s, over (n+1) C(n, s).
int Race::heads_needed(int flips, double error) {
  const auto log_choose = [](int n, int k) {
    return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
  };
  double sum = 0;
  for (int heads = 0; heads <= flips; ++heads) {
    sum += std::exp(log_choose(flips + 1, heads));
    const double stake = sum / ((flips + 1) * std::exp(log_choose(flips, heads)));
    if (2 * heads > flips && stake >= 1 / error) return heads;
  }
  return flips + 1;
}

double Race::least_ratio(size_t a, size_t b) const {
  const std::vector<double> all = ratios(a, b);
  // The winner is whoever turns out to be, so the error is shared by all pairs in both directions.
  const auto kernels = static_cast<double>(kernels_.size());
  const double error = (1 - kConfidence) / std::max(2.0, kernels * (kernels - 1));
  const auto flips = static_cast<int>(all.size());
  const int heads = heads_needed(flips, error);
  return heads > flips ? kNoBound : all[static_cast<size_t>(flips - heads)];
}

void Race::end_round() {
  const size_t best = fastest();
  for (size_t k = 0; k < kernels_.size(); ++k) {
    if (k == best || !runs(k)) continue;
    const std::vector<double> all = ratios(k, best);
    Kernel& kernel = kernels_[k];
    kernel.hopeless = all.size() >= kOpenRounds && all.front() > std::log(kFarBehind);
    kernel.out = kernel.hopeless || least_ratio(k, best) > std::log1p(kNoise);
  }
}

bool Race::decided() const {
  for (size_t a = 0; a < kernels_.size(); ++a) {
    for (size_t b = 0; b < kernels_.size(); ++b) {
      if (a != b && runs(a) && runs(b) && most_ratio(a, b) > std::log1p(kClaim)) return false;
    }
  }
  return true;
}

bool Race::spoiled() const {
  return std::ranges::any_of(kernels_, [](const Kernel& k) {
    return !k.out && !k.rounds.empty() && std::ranges::all_of(k.rounds, &Round::disturbed);
  });
}

Comparison Race::result() const {
  const size_t best = fastest();
  Comparison found;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    found.medians.push_back(median(kernels_[k]));
    found.rounds.push_back(counted(kernels_[k]));
    bool tied = runs(k) && best < kernels_.size();
    if (tied && k != best) {
      const std::vector<double> all = ratios(k, best);
      tied = !all.empty() && median_of(all) <= std::log1p(kNoise);
    }
    found.tied.push_back(tied);
    double behind = 0;
    for (size_t other = 0; other < kernels_.size(); ++other) {
      if (other == k || kernels_[other].failed || kernels_[other].hopeless) continue;
      behind = std::max(behind, std::expm1(most_ratio(k, other)));
    }
    found.behind.push_back(kernels_[k].out || std::isinf(behind) ? -1 : behind);
  }
  return found;
}

}  // namespace tilewright
