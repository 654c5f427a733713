// Measures how long something takes: repeated runs until the confidence interval is small.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

enum class CacheState : uint8_t {
  Warm,  // the operands are as the run before left them
  Cold,  // the caches were swept before each run
};

std::string_view name_of(CacheState state);

struct TimingOptions {
  CacheState cache = CacheState::Warm;
  // Stop once half the 95% confidence interval of the median is within this share of the median…
  double relative_ci = 0.02;
  int min_samples = 6;
  double min_seconds = 0.02;  // …and this much time was spent,
  // or when one of these is reached (three samples are taken however slow the runs are).
  int max_samples = 200;
  double max_seconds = 0.5;
  // A sample is as many runs as fill this time (one when the cache is cold).
  double sample_seconds = 1e-3;
  // Runs before the first sample, at least one, until this time is spent.
  double warmup_seconds = 2e-3;
  // What is worth measuring exactly: measuring ends when the first two samples are both slower, and
  // after the warm-up when that was 4 times slower.
  double cutoff_seconds = std::numeric_limits<double>::infinity();
  // A median above this needs to be known to a tenth only.
  double coarse_above_seconds = std::numeric_limits<double>::infinity();
  // How many threads the runs keep busy, the calling one among them; 0: not known, and nothing is said
  // of what else had the processors. A run of one thread takes its time on the processor where other
  // work had more than a twentieth of the wall's.
  int threads = 0;
  // Most measurements of which the least disturbed one is taken, on several threads.
  int attempts = 1;
  // A first run that takes this long is the only sample: so slow a thing is hardly disturbed, and
  // not worth the time of more.
  double lone_run_seconds = std::numeric_limits<double>::infinity();
};

struct Timing {
  std::vector<double> samples;  // seconds a run, in the order taken
  int repeats = 1;              // runs a sample
  double median = 0, mean = 0, min = 0;
  double ci_low = 0, ci_high = 0;  // of the median, 95%, from order statistics
  bool stopped_early = false;      // by the cut-off, or after a lone run
  CacheState cache = CacheState::Warm;
  double wall_median = 0;      // by the wall's clock, whichever clock the samples are of
  std::string disturbed = {};  // what else had the processors (disturbance.h); empty: nothing

  // Half the interval over the median.
  double relative_ci() const { return median > 0 ? (ci_high - ci_low) / 2 / median : 0; }
};

// The source of time, in seconds; a test may hand in its own.
using ClockFn = std::function<double()>;
double steady_seconds();
// Seconds that the calling thread has run on a processor.
double thread_cpu_seconds();

// Adds the seconds of its scope to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), begin_(steady_seconds()) {}
  ~Stopwatch() { sum_ += steady_seconds() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  double begin_;
};

Timing measure(const std::function<void()>& run, const TimingOptions& options = {},
               const ClockFn& clock = steady_seconds,
               const ClockFn& cpu_clock = thread_cpu_seconds);

// What one run took, by the clock that measure() would believe.
double seconds_of_run(const std::function<void()>& run, int threads);

// measure(), up to `options.attempts` times while it is disturbed: the first timing that is not, else the one of
// the least median. What one thread ran is known, and not measured again.
Timing measure_again_while_disturbed(const std::function<void()>& run,
                                     const TimingOptions& options);

// The timing of a lone run that took so many seconds.
Timing lone_run(double seconds, const TimingOptions& options);

// Measures several in turns, one sample each a round (A B C A B C …), so that drift of the machine
// meets them alike. Rounds go on until every interval is small enough; the limits hold for all
// together, times their number. No cut-off, no lone runs.
std::vector<Timing> measure_interleaved(const std::vector<std::function<void()>>& runs,
                                        const TimingOptions& options = {},
                                        const ClockFn& clock = steady_seconds);

// The median over rounds of samples of `a` over those of `b`: above 1 when `b` is faster. Requires
// timings of one measure_interleaved call.
double median_ratio(const Timing& a, const Timing& b);

// The mean of both middle values of an even number. Requires a value.
double median_of(std::vector<double> values);

// Fills median, mean, min and the interval from the samples; there is at least one.
void summarize(Timing* timing);

// Walks a buffer larger than the last-level cache, so that nothing else stays cached.
void flush_caches();

}  // namespace tilewright
