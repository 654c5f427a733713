// A race of kernels that run in turns, as a sequential test.
//
// Each round times each kernel once. Two kernels are compared by the ratio of their times in the same round, so that a
// machine's slow and fast minutes count for both. A round's time is the least of its samples, since other work only
// slows a run. One is slower by a factor where the median of these ratios is above
// it. The test bets on the sign of each ratio (Darling and Robbins 1967, "Confidence sequences for mean, variance, and
// median"): it assumes no distribution, outliers count as any other round, and its bounds hold at all rounds at once.
// So a race may stop whenever it is decided, and the bounds still hold.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tilewright {

// Kernels that ran in turns.
struct Comparison {
  // Seconds, by kernel: the median over its rounds, of the least sample of each; 0: it failed.
  std::vector<double> medians;
  std::vector<std::vector<double>> rounds;  // by kernel: a time per round that counts
  std::string disturbed = {};               // the cause; empty where a round was undisturbed
  // By kernel: whether it is the fastest, or within the noise of it.
  std::vector<bool> tied = {};
  // By kernel: as a share, how much slower it may be than the fastest of all, at Race::kConfidence. Negative: the
  // rounds were too few to say.
  std::vector<double> behind = {};
};

class Race {
 public:
  static constexpr double kNoise = 0.01;  // kernels that differ by less tie
  static constexpr double kClaim =
      0.015;  // how far the winner may be behind when a race is decided
  static constexpr double kConfidence = 0.99;  // of all bounds of a race together
  static constexpr size_t kOpenRounds = 2;     // before kernels that are far behind leave
  static constexpr double kFarBehind = 1.1;    // times the fastest's time

  explicit Race(size_t kernels) : kernels_(kernels) {}

  bool runs(size_t kernel) const { return !kernels_[kernel].out; }
  // The kernel's time in this round. `disturbed`: other work had the processors.
  void add(size_t kernel, double seconds, bool disturbed);
  void fail(size_t kernel);
  // Ends a round. Kernels leave that are slower than the fastest by more than the noise, or that are far behind in
  // each of two rounds.
  void end_round();
  // Whether any of those that are left may win: none is behind another one by more than kClaim.
  bool decided() const;
  // `disturbed` has no cause yet; `spoiled` tells whether it needs one.
  Comparison result() const;
  // Whether a kernel that ran to the end has no undisturbed round.
  bool spoiled() const;

  // The least number of heads among `flips` of a coin at which heads are more likely than tails, where the chance of
  // saying so of a coin without that at any number of flips is at most `error`. More than `flips`: no number is.
  static int heads_needed(int flips, double error);

 private:
  struct Round {
    double seconds;
    bool disturbed;
  };
  struct Kernel {
    std::vector<Round> rounds = {};
    bool out = false;  // failed, or left
    bool failed = false;
    bool hopeless = false;  // far behind
  };

  // Seconds of the rounds that count: the undisturbed ones, where there are any.
  static std::vector<double> counted(const Kernel& kernel);
  static double median(const Kernel& kernel);
  // Among those that run; the number of kernels: none does.
  size_t fastest() const;
  // Logarithms of a's time to b's, ascending, by round.
  std::vector<double> ratios(size_t a, size_t b) const;
  // The logarithm of the least ratio of a to b, and of the largest; infinite: the rounds are too few.
  double least_ratio(size_t a, size_t b) const;
  double most_ratio(size_t a, size_t b) const { return -least_ratio(b, a); }

  std::vector<Kernel> kernels_;
};

}  // namespace tilewright
