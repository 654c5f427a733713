// The processors of this machine: cores, kinds of core, shared caches and NUMA nodes.
#pragma once

#include <string>
#include <vector>

#include "runtime/machine/caches.h"

namespace tilewright {

// A physical core, as far as this process may use it.
struct Core {
  std::vector<int> cpus;   // its hardware threads, lowest first; never empty
  bool efficient = false;  // at most half as fast as the fastest cores of a hybrid chip
  int node = 0;            // NUMA node
  int cache = 0;           // the lowest processor that shares its last cache
};

// Threads take the cores in their order: performance cores before efficient ones, and those of one NUMA
// node and of one last cache together, the largest such group first. So as many threads as fit there
// stay within one node and one cache.
struct Topology {
  std::vector<Core> cores;  // never empty
  CacheSizes caches;        // those of the first core

  // One hardware thread of each core, then the cores' second ones.
  std::vector<int> cpus() const;
  // The cores that threads use unless somebody asks for more: a loop's threads take equal shares, and
  // would wait for those on efficient cores.
  int performance_cores() const;
  // "8 performance and 4 efficient cores, 2 threads per core, 2 NUMA nodes, …".
  std::string text() const;
};

// Facts of these processors from sysfs: x86 and Arm, hybrid chips of Intel and of Arm. Without sysfs each
// processor is a core. `root` stands before /sys.
Topology read_topology(const std::vector<int>& cpus, const std::string& root = "");

// The topology of the processors that the process was allowed to use when this was first called.
const Topology& topology();

}  // namespace tilewright
