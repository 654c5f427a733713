#include "runtime/machine/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "base/files.h"
#include "runtime/machine/topology.h"

namespace tilewright {
namespace {

// "max 100000" or "150000 100000" of version 2, or the two files of version 1. 0: no limit.
double quota_of(const std::string& folder) {
  std::optional<std::string> quota = read_file(folder + "/cpu.max"), period;
  if (quota) {
    const size_t space = quota->find(' ');
    if (space != std::string::npos) period = quota->substr(space + 1);
  } else {
    quota = read_file(folder + "/cpu.cfs_quota_us");
    period = read_file(folder + "/cpu.cfs_period_us");
  }
  if (!quota || !period) return 0;
  const double time = std::atof(quota->c_str()), each = std::atof(period->c_str());
  return time > 0 && each > 0 ? time / each : 0;  // "max" and -1 are none
}

// The least of a group's quota and those of the groups that hold it.
double least_quota(const std::string& mount, std::string path) {
  double least = 0;
  for (;;) {
    const double quota = quota_of(mount + path);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

// Whether the controllers of a line of /proc/self/cgroup, "cpu,cpuacct", have cpu among them.
bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

// sched_getaffinity refuses a mask smaller than the kernel's, so it grows until it fits.
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  for (size_t capacity = 1024; capacity <= (1 << 18); capacity *= 2) {
    std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(capacity),
                                                          [](cpu_set_t* m) { CPU_FREE(m); });
    size_t bytes = CPU_ALLOC_SIZE(capacity);
    if (sched_getaffinity(0, bytes, mask.get()) != 0) continue;
    for (size_t cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask.get())) cpus.push_back(static_cast<int>(cpu));
    }
    break;
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

// Part of a processor's time is none: all threads of a loop wait for the one that was held up.
int within_quota(int threads) {
  const double quota = cpu_quota();
  return quota > 0 ? std::clamp(static_cast<int>(quota), 1, threads) : threads;
}

bool set_affinity(const std::vector<int>& cpus) {
  size_t capacity = static_cast<size_t>(*std::max_element(cpus.begin(), cpus.end())) + 1;
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(capacity),
                                                        [](cpu_set_t* m) { CPU_FREE(m); });
  size_t bytes = CPU_ALLOC_SIZE(capacity);
  CPU_ZERO_S(bytes, mask.get());
  for (int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, mask.get());
  return sched_setaffinity(0, bytes, mask.get()) == 0;
}

}  // namespace

const Topology& topology() {
  static const Topology found = read_topology(allowed_cpus());
  return found;
}

const CacheSizes& cache_sizes() { return topology().caches; }

const std::vector<int>& available_cpus() {
  static const std::vector<int> cpus = topology().cpus();
  return cpus;
}

int available_threads() {
  static const int threads = within_quota(static_cast<int>(available_cpus().size()));
  return threads;
}

int available_cores() { return std::min(topology().performance_cores(), available_threads()); }

double cpu_quota(const std::string& root) {
  std::istringstream groups(read_file(root + "/proc/self/cgroup").value_or(""));
  const std::string mounts = root + "/sys/fs/cgroup/";
  double least = 0;
  const auto add = [&](const std::string& mount, const std::string& path) {
    const double quota = least_quota(mounts + mount, path);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
  };
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/docker/ab", "0::/user"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers.empty()) {
      add("", path);
      add("unified", path);
    } else if (names_cpu(controllers)) {
      // In a container the group that is named here may be mounted as the root.
      add("cpu", path);
      add(controllers, path);
    }
  }
  return least;
}

bool pin_current_thread(int cpu) {
  available_cpus();  // remembers what was allowed before
  return set_affinity({cpu});
}

bool unpin_current_thread() { return set_affinity(available_cpus()); }

}  // namespace tilewright
