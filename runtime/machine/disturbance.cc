#include "runtime/machine/disturbance.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "base/files.h"
#include "runtime/machine/cpus.h"
#include "runtime/machine/timer.h"

namespace tilewright {
namespace {

// Shares of the time, beyond which a measurement is not what it would be alone.
constexpr double kMostLost = 0.05, kMostTaken = 0.1;
// A busy neighbour takes turns some hundred times a second; the system's own threads a few times.
constexpr double kMostSwitches = 60;  // a second
constexpr int64_t kFewSwitches = 5;   // say nothing of a short span
// /proc/stat counts in hundredths of a second.
constexpr double kShortSpan = 0.15;

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// All clocks and counters now; `others` is the busy time of the processors, this process's included.
Load now() {
  Load load;
  load.wall = steady_seconds();
  load.thread = thread_cpu_seconds();
  const ProcessorTimes times =
      processor_times(read_file("/proc/stat").value_or(""), available_cpus());
  load.others = times.busy;
  load.stolen = times.stolen;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  load.switches = usage.ru_nivcsw;
  return load;
}

}  // namespace

ProcessorTimes processor_times(const std::string& stat, const std::vector<int>& cpus) {
  static const double tick = 1.0 / static_cast<double>(std::max(1L, sysconf(_SC_CLK_TCK)));
  ProcessorTimes sum;
  std::istringstream lines(stat);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, steal = 0;
    fields >> name >> user >> nice >> system >> idle >> waiting >> irq >> soft >> steal;
    const bool of_one = name.size() > 3 && name.starts_with("cpu") && fields;
    if (!of_one || std::count(cpus.begin(), cpus.end(), std::atoi(name.c_str() + 3)) == 0) continue;
    sum.busy += (user + nice + system + irq + soft) * tick;
    sum.stolen += steal * tick;
  }
  return sum;
}

std::string disturbance(const Load& load, int threads, int processors) {
  if (load.wall <= 0) return "";
  const double lost = 1 - load.thread / load.wall;
  if (lost > kMostLost) {
    return fmt::format("other work had {:.0f}% of the measured thread's time", 100 * lost);
  }
  if (load.stolen > kMostLost * threads) {
    return fmt::format("the hypervisor gave {:.1f} processors to other guests", load.stolen);
  }
  // Who else is busy takes the processors first that the threads leave free.
  const double taken = load.others - std::max(0, processors - threads);
  if (taken > kMostTaken * threads) {
    return fmt::format("other processes kept {:.1f} of {} processors busy beside {} thread{}",
                       load.others, processors, threads, threads == 1 ? "" : "s");
  }
  const auto rate = static_cast<double>(load.switches) / load.wall;
  if (load.switches > kFewSwitches && rate > kMostSwitches * threads) {
    return fmt::format("threads were preempted {:.0f} times per second", rate);
  }
  return "";
}

LoadMeter::LoadMeter() : begin_(now()), own_(seconds_of(CLOCK_PROCESS_CPUTIME_ID)) {}

Load LoadMeter::so_far() const {
  const double own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_;
  Load load = now();
  load.wall -= begin_.wall;
  load.thread -= begin_.thread;
  load.switches -= begin_.switches;
  const bool tells = load.wall >= kShortSpan;
  load.others = tells ? std::max(0.0, load.others - begin_.others - own) / load.wall : 0;
  load.stolen = tells ? std::max(0.0, load.stolen - begin_.stolen) / load.wall : 0;
  return load;
}

std::string LoadMeter::disturbed(int threads) const {
  return disturbance(so_far(), threads, static_cast<int>(available_cpus().size()));
}

}  // namespace tilewright
