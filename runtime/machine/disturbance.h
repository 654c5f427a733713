// Whether something else had the processors while something was measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilewright {

// What the system tells of a span of time.
struct Load {
  double wall = 0;    // seconds
  double thread = 0;  // seconds that the calling thread ran
  double others = 0;  // processors' worth of other processes, on those that this one may use; and
  double stolen = 0;  // of the hypervisor's other guests. Both 0 for spans too short to tell
  int64_t switches = 0;  // times that a thread of this process had to make room
};

// What was taken from `threads` busy threads, the calling one among them, that may use so many
// processors: "other work had 31% of this thread's time". Empty where it is too little to matter.
std::string disturbance(const Load& load, int threads, int processors);

// Processors' time since the system started, in seconds, of these processors by the text of /proc/stat.
struct ProcessorTimes {
  double busy = 0, stolen = 0;
};
ProcessorTimes processor_times(const std::string& stat, const std::vector<int>& cpus);

// A span that begins where it is made, in one thread.
class LoadMeter {
 public:
  LoadMeter();
  Load so_far() const;
  // disturbance() of what was so far, on this process's processors.
  std::string disturbed(int threads) const;

 private:
  Load begin_;  // clocks and counters as they stood
  double own_ = 0;
};

}  // namespace tilewright
