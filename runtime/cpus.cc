#include "runtime/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "runtime/files.h"

namespace tilewright {
namespace {

// The lowest hardware thread of the core that `cpu` belongs to.
int first_sibling(int cpu) {
  std::optional<std::string> text = read_file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                              "/topology/thread_siblings_list");
  if (!text || text->empty() || text->front() < '0' || text->front() > '9') return cpu;
  return std::atoi(text->c_str());
}

struct CpuList {
  std::vector<int> cpus;
  int cores = 1;
};

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

CpuList list_cpus() {
  std::vector<int> allowed = allowed_cpus();
  CpuList list;
  std::vector<int> later, seen_cores;
  for (int cpu : allowed) {
    int core = first_sibling(cpu);
    bool seen = std::find(seen_cores.begin(), seen_cores.end(), core) != seen_cores.end();
    (seen ? later : list.cpus).push_back(cpu);
    if (!seen) seen_cores.push_back(core);
  }
  list.cores = static_cast<int>(list.cpus.size());
  list.cpus.insert(list.cpus.end(), later.begin(), later.end());
  return list;
}

const CpuList& cpu_list() {
  static const CpuList list = list_cpus();
  return list;
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

const std::vector<int>& available_cpus() { return cpu_list().cpus; }
int available_cores() { return cpu_list().cores; }

bool pin_current_thread(int cpu) {
  cpu_list();  // remembers what was allowed before
  return set_affinity({cpu});
}

bool unpin_current_thread() { return set_affinity(available_cpus()); }

}  // namespace tilewright
