#include "runtime/machine/timer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "runtime/machine/caches.h"
#include "runtime/machine/disturbance.h"

namespace tilewright {
namespace {

constexpr int kMaxRepeats = 1 << 20;
constexpr double kRan = 0.95;  // of the wall's time: less, and other work had the processor
constexpr int kCutoffSamples = 2;
constexpr double kHopeless = 4;    // times the cut-off: the warm-up alone says enough
constexpr double kCoarse = 0.1;    // half an interval over the median
constexpr int kFewestSamples = 3;  // taken however slow the runs are

// Seconds of a run that took so long by the wall's clock and had the calling thread's processor for
// so long.
double believed(double wall, double ran, int threads) {
  return threads == 1 && ran < kRan * wall ? ran : wall;
}

// One callable under measurement.
class Subject {
 public:
  Subject(const std::function<void()>& run, const TimingOptions& options, const ClockFn& clock,
          const ClockFn& cpu_clock)
      : run_(run), options_(options), clock_(clock), cpu_clock_(cpu_clock) {
    timing.cache = options.cache;
  }

  // Runs until the warm-up is over and chooses the runs of a sample from the fastest of them.
  void warm_up() {
    double begin = clock_(), fastest = std::numeric_limits<double>::infinity();
    int runs = 0;
    double now = begin;
    do {
      double before = clock_();
      run_();
      now = clock_();
      fastest = std::min(fastest, now - before);
      ++runs;
    } while (now - begin < options_.warmup_seconds);
    bool lone = runs == 1 && fastest >= options_.lone_run_seconds;
    if (lone || fastest > kHopeless * options_.cutoff_seconds) {
      timing.samples.push_back(fastest);
      return;
    }
    if (options_.cache == CacheState::Cold) return;
    double wanted = options_.sample_seconds / std::max(fastest, 1e-9);
    timing.repeats = static_cast<int>(std::clamp(std::ceil(wanted), 1.0, double{kMaxRepeats}));
  }

  void take_sample() {
    if (options_.cache == CacheState::Cold) flush_caches();
    const double begin = clock_(), ran = cpu_clock_();
    for (int i = 0; i < timing.repeats; ++i) run_();
    const double wall = clock_() - begin;
    walls_.push_back(wall / timing.repeats);
    timing.samples.push_back(believed(wall, cpu_clock_() - ran, options_.threads) / timing.repeats);
  }

  // Once the samples are complete.
  Timing finish() {
    summarize(&timing);
    timing.wall_median = walls_.empty() ? timing.median : median_of(walls_);
    return std::move(timing);
  }

  bool exact_enough() {
    auto count = static_cast<int>(timing.samples.size());
    // Seldom when there are many: each look sorts the samples.
    if (count < options_.min_samples || count % (1 + count / 32) != 0) return false;
    summarize(&timing);
    const bool coarse = timing.ci_low > options_.coarse_above_seconds;
    return timing.relative_ci() <= (coarse ? kCoarse : options_.relative_ci);
  }

  bool beyond_cutoff() const {
    return std::all_of(timing.samples.begin(), timing.samples.end(),
                       [&](double s) { return s > options_.cutoff_seconds; });
  }

  Timing timing;

 private:
  const std::function<void()>& run_;
  const TimingOptions& options_;
  const ClockFn& clock_;
  const ClockFn& cpu_clock_;
  std::vector<double> walls_;
};

}  // namespace

std::string_view name_of(CacheState state) { return state == CacheState::Warm ? "warm" : "cold"; }

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

void summarize(Timing* timing) {
  TW_ASSERT(!timing->samples.empty(), "a timing has samples");
  std::vector<double> sorted = timing->samples;
  std::sort(sorted.begin(), sorted.end());
  auto n = static_cast<double>(sorted.size());
  timing->median = median_of(sorted);
  timing->mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  timing->min = sorted.front();
  // The number of samples under the true median is binomial(n, 1/2): normal approximation, with all
  // the range for few samples (6 of them enclose the median with 97%).
  double half_width = 0.98 * std::sqrt(n);
  auto low = static_cast<size_t>(std::max(0.0, std::floor(n / 2 - half_width)));
  auto high = static_cast<size_t>(std::min(n - 1, std::ceil(n / 2 + half_width)));
  timing->ci_low = sorted[low];
  timing->ci_high = sorted[high];
}

Timing measure(const std::function<void()>& run, const TimingOptions& options, const ClockFn& clock,
               const ClockFn& cpu_clock) {
  std::optional<LoadMeter> load;
  if (options.threads > 0) load.emplace();
  Subject subject(run, options, clock, cpu_clock);
  subject.warm_up();
  subject.timing.stopped_early = !subject.timing.samples.empty();
  double begin = clock();
  while (!subject.timing.stopped_early) {
    subject.take_sample();
    double spent = clock() - begin;
    auto count = static_cast<int>(subject.timing.samples.size());
    if (count == kCutoffSamples && subject.beyond_cutoff()) {
      subject.timing.stopped_early = true;
      break;
    }
    if (count >= options.max_samples) break;
    if (count >= kFewestSamples && spent >= options.max_seconds) break;
    if (spent >= options.min_seconds && subject.exact_enough()) break;
  }
  Timing timing = subject.finish();
  if (load) timing.disturbed = load->disturbed(options.threads);
  return timing;
}

double seconds_of_run(const std::function<void()>& run, int threads) {
  const double begin = steady_seconds(), ran = thread_cpu_seconds();
  run();
  const double wall = steady_seconds() - begin;
  return believed(wall, thread_cpu_seconds() - ran, threads);
}

Timing measure_again_while_disturbed(const std::function<void()>& run,
                                     const TimingOptions& options) {
  Timing best = measure(run, options);
  for (int i = 1; i < options.attempts && options.threads > 1 && !best.disturbed.empty(); ++i) {
    if (best.stopped_early) break;
    Timing again = measure(run, options);
    if (again.disturbed.empty() || again.median < best.median) best = std::move(again);
  }
  return best;
}

Timing lone_run(double seconds, const TimingOptions& options) {
  Timing timing;
  timing.samples = {seconds};
  timing.stopped_early = true;
  timing.cache = options.cache;
  summarize(&timing);
  timing.wall_median = seconds;
  return timing;
}

std::vector<Timing> measure_interleaved(const std::vector<std::function<void()>>& runs,
                                        const TimingOptions& options, const ClockFn& clock) {
  std::vector<Subject> subjects;
  TimingOptions all = options;
  const ClockFn cpu_clock = thread_cpu_seconds;
  all.cutoff_seconds = all.lone_run_seconds = std::numeric_limits<double>::infinity();
  for (const std::function<void()>& run : runs) {
    subjects.emplace_back(run, all, clock, cpu_clock);
    subjects.back().warm_up();
  }
  auto number = static_cast<double>(runs.size());
  double begin = clock();
  for (int round = 1; !subjects.empty(); ++round) {
    for (Subject& s : subjects) s.take_sample();
    double spent = clock() - begin;
    if (round >= options.max_samples) break;
    if (round >= kFewestSamples && spent >= options.max_seconds * number) break;
    if (spent < options.min_seconds * number) continue;
    if (std::all_of(subjects.begin(), subjects.end(),
                    [](Subject& s) { return s.exact_enough(); })) {
      break;
    }
  }
  std::vector<Timing> timings;
  for (Subject& s : subjects) timings.push_back(s.finish());
  return timings;
}

double median_ratio(const Timing& a, const Timing& b) {
  TW_ASSERT(!a.samples.empty() && a.samples.size() == b.samples.size(),
            "both timings come from one interleaved measurement");
  std::vector<double> ratios;
  for (size_t i = 0; i < a.samples.size(); ++i) ratios.push_back(a.samples[i] / b.samples[i]);
  return median_of(std::move(ratios));
}

void flush_caches() {
  // Twice the last level, so that what a cache keeps by a smart policy goes as well. Written, since
  // only modified lines are sure to have been taken.
  static std::vector<unsigned char> sweep(
      static_cast<size_t>(std::clamp<int64_t>(2 * cache_sizes().last, 16 << 20, 512 << 20)));
  for (size_t i = 0; i < sweep.size(); i += 64) ++sweep[i];
  asm volatile("" ::"r"(sweep.data()) : "memory");
}

}  // namespace tilewright
