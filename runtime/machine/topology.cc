#include "runtime/machine/topology.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/files.h"

namespace tilewright {
namespace {

std::optional<int64_t> number_in(const std::string& file) {
  const std::optional<std::string> text = read_file(file);
  int64_t value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc()) return std::nullopt;
  if (*end == 'K') value <<= 10;
  if (*end == 'M') value <<= 20;
  return value;
}

// "0-3,8,10-11". Nothing where the file is missing or holds something else.
std::vector<int> cpus_in(const std::string& file) {
  constexpr int kMost = 1 << 18;
  std::vector<int> cpus;
  const std::string text = read_file(file).value_or("");
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    int first = 0, last = 0;
    std::from_chars_result read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    last = first;
    if (read.ptr < end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || first < 0 || last >= kMost) break;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    at = read.ptr + (read.ptr < end && *read.ptr == ',' ? 1 : 0);
    if (read.ptr < end && *read.ptr != ',') break;
  }
  return cpus;
}

// A data cache as a processor sees it.
struct Cache {
  int64_t bytes = 0;
  std::vector<int> cpus;  // those that share it
};

class Sysfs {
 public:
  explicit Sysfs(const std::string& root) : system_(root + "/sys/devices/") {
    for (const char* slow : {"cpu_atom", "cpu_lowpower"}) {  // of Intel's hybrid chips
      for (int cpu : cpus_in(system_ + slow + "/cpus")) slow_.insert(cpu);
    }
    for (int node : cpus_in(system_ + "system/node/online")) {
      for (int cpu : cpus_in(fmt::format("{}system/node/node{}/cpulist", system_, node))) {
        node_[cpu] = node;
      }
    }
  }

  std::vector<int> siblings(int cpu) const {
    std::vector<int> cpus = cpus_in(folder(cpu) + "topology/thread_siblings_list");
    if (cpus.empty()) cpus.push_back(cpu);
    return cpus;
  }
  // How fast it is beside others: Arm's measure, whose fastest is 1024.
  int64_t capacity(int cpu) const {
    return number_in(folder(cpu) + "cpu_capacity").value_or(slow_.count(cpu) > 0 ? 512 : 1024);
  }
  int node(int cpu) const {
    const auto found = node_.find(cpu);
    return found == node_.end() ? 0 : found->second;
  }
  // By level.
  std::map<int64_t, Cache> caches(int cpu) const {
    std::map<int64_t, Cache> found;
    for (int index = 0; index < 8; ++index) {
      const std::string base = fmt::format("{}cache/index{}/", folder(cpu), index);
      const std::optional<int64_t> level = number_in(base + "level"),
                                   size = number_in(base + "size");
      const std::optional<std::string> type = read_file(base + "type");
      if (!level || !size || !type || type->starts_with("Instruction") || *level > 3) continue;
      found[*level] = {*size, cpus_in(base + "shared_cpu_list")};
    }
    return found;
  }

 private:
  std::string folder(int cpu) const { return fmt::format("{}system/cpu/cpu{}/", system_, cpu); }

  std::string system_;
  std::set<int> slow_;
  std::map<int, int> node_;
};

CacheSizes sizes_for(const Core& core, const Sysfs& sysfs) {
  const int cpu = core.cpus.front();
  std::map<int64_t, Cache> caches = sysfs.caches(cpu);
  const size_t threads = sysfs.siblings(cpu).size();
  const auto cores = [&](int64_t level) {
    return static_cast<int>((caches[level].cpus.size() + threads - 1) / threads);
  };
  const auto bytes = [&](int64_t level, int name) {
    return caches[level].bytes > 0 ? caches[level].bytes : int64_t{sysconf(name)};
  };
  CacheSizes sizes;
  if (const int64_t l1 = bytes(1, _SC_LEVEL1_DCACHE_SIZE); l1 > 0) sizes.l1 = l1;
  if (const int64_t l2 = bytes(2, _SC_LEVEL2_CACHE_SIZE); l2 > 0) sizes.l2 = l2;
  if (const int64_t l3 = bytes(3, _SC_LEVEL3_CACHE_SIZE); l3 > 0) sizes.l3 = l3;
  sizes.l2_cores = std::max(1, cores(2));
  sizes.l3_cores = cores(3);
  sizes.last = std::max(sizes.l2, sizes.l3);
  return sizes;
}

// The cores in the order in which threads take them.
void put_in_order(std::vector<Core>* cores) {
  std::map<std::pair<bool, int>, int> of_node;
  std::map<std::tuple<bool, int, int>, int> of_cache;
  for (const Core& core : *cores) {
    ++of_node[{core.efficient, core.node}];
    ++of_cache[{core.efficient, core.node, core.cache}];
  }
  const auto key = [&](const Core& core) {
    return std::tuple(core.efficient, -of_node[{core.efficient, core.node}], core.node,
                      -of_cache[{core.efficient, core.node, core.cache}], core.cache,
                      core.cpus.front());
  };
  std::sort(cores->begin(), cores->end(),
            [&](const Core& a, const Core& b) { return key(a) < key(b); });
}

std::string counted(size_t count, const char* one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace

int64_t CacheSizes::l2_of(int threads) const { return l2 * ((threads + l2_cores - 1) / l2_cores); }

int64_t CacheSizes::l3_of(int threads) const {
  if (l3_cores == 0) return l3;
  return l3 * ((threads + l3_cores - 1) / l3_cores);
}

std::vector<int> Topology::cpus() const {
  std::vector<int> list;
  for (size_t thread = 0, before = 1; before > 0; ++thread) {
    before = 0;
    for (const Core& core : cores) {
      if (thread >= core.cpus.size()) continue;
      list.push_back(core.cpus[thread]);
      ++before;
    }
  }
  return list;
}

int Topology::performance_cores() const {
  return static_cast<int>(
      std::count_if(cores.begin(), cores.end(), [](const Core& core) { return !core.efficient; }));
}

std::string Topology::text() const {
  const size_t fast = static_cast<size_t>(performance_cores()), slow = cores.size() - fast;
  std::set<int> nodes, groups;
  size_t threads = 1;
  for (const Core& core : cores) {
    nodes.insert(core.node);
    groups.insert(core.cache);
    threads = std::max(threads, core.cpus.size());
  }
  std::string text = slow == 0 ? counted(fast, "core")
                               : fmt::format("{} performance and {} efficient cores", fast, slow);
  if (threads > 1) text += fmt::format(", {} threads per core", threads);
  if (nodes.size() > 1) text += ", " + counted(nodes.size(), "NUMA node");
  text += fmt::format(", L1 {} KiB, L2 {} KiB", caches.l1 >> 10, caches.l2 >> 10);
  if (caches.l2_cores > 1) text += fmt::format(" per {} cores", caches.l2_cores);
  if (caches.l3 == 0) return text;
  if (groups.size() > 1) text += fmt::format(", {} times", groups.size());
  text += fmt::format("{}L3 {:.3g} MiB", groups.size() > 1 ? " " : ", ",
                      static_cast<double>(caches.l3) / (1 << 20));
  if (caches.l3_cores == 0) return text;
  return text + " per " + counted(static_cast<size_t>(caches.l3_cores), "core");
}

Topology read_topology(const std::vector<int>& cpus, const std::string& root) {
  const Sysfs sysfs(root);
  std::map<int, Core> cores;  // by the lowest hardware thread of each, whoever may use that one
  int64_t fastest = 0;
  for (int cpu : cpus) fastest = std::max(fastest, sysfs.capacity(cpu));
  for (int cpu : cpus) {
    Core& core = cores[sysfs.siblings(cpu).front()];
    core.cpus.push_back(cpu);
    if (core.cpus.size() > 1) continue;
    core.efficient = 2 * sysfs.capacity(cpu) <= fastest;
    core.node = sysfs.node(cpu);
    const std::map<int64_t, Cache> caches = sysfs.caches(cpu);
    // Without a last cache of its own the core shares that of its node.
    const bool known = !caches.empty() && !caches.rbegin()->second.cpus.empty();
    core.cache = known ? caches.rbegin()->second.cpus.front() : -1 - core.node;
  }
  Topology found;
  for (auto& [first, core] : cores) found.cores.push_back(std::move(core));
  put_in_order(&found.cores);
  found.caches = sizes_for(found.cores.front(), sysfs);
  return found;
}

}  // namespace tilewright
