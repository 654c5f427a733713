// The order of cores, on machines that folders of files describe as sysfs would.
#include "runtime/machine/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/machine/cpus.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

using testing::ElementsAre;

std::vector<int> all_up_to(int count) {
  std::vector<int> cpus(static_cast<size_t>(count));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

class Sysfs {
 public:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + "/sys/devices/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  void siblings(int cpu, const std::string& list) {
    write(of(cpu) + "topology/thread_siblings_list", list);
  }
  void cache(int cpu, int index, int level, const std::string& size, const std::string& shared,
             const std::string& type = "Unified") {
    const std::string base = of(cpu) + "cache/index" + std::to_string(index) + "/";
    write(base + "level", std::to_string(level));
    write(base + "type", type);
    write(base + "size", size);
    write(base + "shared_cpu_list", shared);
  }
  static std::string of(int cpu) { return "system/cpu/cpu" + std::to_string(cpu) + "/"; }
  Topology read(const std::vector<int>& cpus) const { return read_topology(cpus, folder_.path()); }

 private:
  test::TempDir folder_;
};

TEST(Topology, WithoutSysfsEachProcessorIsACore) {
  const Topology found = Sysfs().read({0, 1, 5});
  EXPECT_THAT(found.cpus(), ElementsAre(0, 1, 5));
  EXPECT_EQ(found.performance_cores(), 3);
  EXPECT_GT(found.caches.l1, 0);
  EXPECT_EQ(found.caches.l3_of(3), found.caches.l3);
}

TEST(Topology, DamagedFilesAreLikeMissingOnes) {
  Sysfs sysfs;
  sysfs.siblings(0, "rubbish");
  sysfs.siblings(1, "7-");
  sysfs.cache(0, 0, 1, "K", "0");
  sysfs.write("system/node/online", "0-999999999999");
  EXPECT_THAT(sysfs.read({0, 1}).cpus(), ElementsAre(0, 1));
}

TEST(Topology, OneThreadOfEachCoreBeforeTheSecondOnes) {
  Sysfs sysfs;
  for (int cpu = 0; cpu < 4; ++cpu) sysfs.siblings(cpu, cpu % 2 == 0 ? "0,2" : "1,3");
  const Topology found = sysfs.read(all_up_to(4));
  EXPECT_EQ(found.performance_cores(), 2);
  EXPECT_THAT(found.cpus(), ElementsAre(0, 1, 2, 3));
  // A cpuset with one core's second thread alone.
  EXPECT_THAT(sysfs.read({2, 3}).cpus(), ElementsAre(2, 3));
  EXPECT_EQ(sysfs.read({0, 2}).performance_cores(), 1);
}

// Two sockets whose processors take turns, as many servers number them.
Sysfs two_sockets() {
  Sysfs sysfs;
  sysfs.write("system/node/online", "0-1");
  sysfs.write("system/node/node0/cpulist", "0,2,4,6");
  sysfs.write("system/node/node1/cpulist", "1,3,5,7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    sysfs.siblings(cpu, std::to_string(cpu));
    sysfs.cache(cpu, 0, 1, "48K", std::to_string(cpu), "Data");
    sysfs.cache(cpu, 1, 1, "64K", std::to_string(cpu), "Instruction");
    sysfs.cache(cpu, 2, 2, "2048K", std::to_string(cpu));
    sysfs.cache(cpu, 3, 3, "30M", cpu % 2 == 0 ? "0,2,4,6" : "1,3,5,7");
  }
  return sysfs;
}

TEST(Topology, ThreadsStayOnOneSocketWhereTheyFit) {
  const Topology found = two_sockets().read(all_up_to(8));
  EXPECT_THAT(found.cpus(), ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
  EXPECT_EQ(found.caches.l1, 48 << 10);
  EXPECT_EQ(found.caches.l2, 2048 << 10);
  EXPECT_EQ(found.caches.l3, 30 << 20);
  EXPECT_EQ(found.caches.l3_cores, 4);
  EXPECT_EQ(found.caches.l3_of(4), 30 << 20);
  EXPECT_EQ(found.caches.l3_of(5), 60 << 20) << "the fifth thread is on the other socket";
  EXPECT_EQ(found.text(),
            "8 cores, 2 NUMA nodes, L1 48 KiB, L2 2048 KiB, 2 times L3 30 MiB per 4 cores");
}

TEST(Topology, OfACpusetTheSocketWithMoreCoresComesFirst) {
  EXPECT_THAT(two_sockets().read({0, 3, 5}).cpus(), ElementsAre(3, 5, 0));
}

TEST(Topology, CoresThatShareALastCacheComeTogether) {
  Sysfs sysfs;  // chiplets of two cores, whose second threads are numbered last
  for (int cpu = 0; cpu < 12; ++cpu) {
    const int core = cpu % 6, first = core / 2 * 2;
    sysfs.siblings(cpu, std::to_string(core) + "," + std::to_string(core + 6));
    sysfs.cache(cpu, 0, 3, "16384K",
                std::to_string(first) + "-" + std::to_string(first + 1) + "," +
                    std::to_string(first + 6) + "-" + std::to_string(first + 7));
  }
  const Topology found = sysfs.read(all_up_to(12));
  EXPECT_EQ(found.caches.l3_cores, 2);
  EXPECT_EQ(found.caches.l3_of(6), 48 << 20);
  EXPECT_THAT(found.cpus(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(sysfs.read({1, 2, 3, 5}).cpus(), ElementsAre(2, 3, 1, 5));
}

TEST(Topology, PerformanceCoresOfAnIntelHybridComeFirst) {
  Sysfs sysfs;  // efficient cores that share a level 2, and two cores of two threads
  sysfs.write("cpu_core/cpus", "4-7");
  sysfs.write("cpu_atom/cpus", "0-3");
  for (int cpu = 0; cpu < 4; ++cpu) {
    sysfs.siblings(cpu, std::to_string(cpu));
    sysfs.cache(cpu, 0, 1, "32K", std::to_string(cpu), "Data");
    sysfs.cache(cpu, 1, 2, "4096K", "0-3");
    sysfs.cache(cpu, 2, 3, "24M", "0-7");
  }
  for (int cpu = 4; cpu < 8; ++cpu) {
    const std::string core = cpu < 6 ? "4-5" : "6-7";
    sysfs.siblings(cpu, core);
    sysfs.cache(cpu, 0, 1, "48K", core, "Data");
    sysfs.cache(cpu, 1, 2, "1280K", core);
    sysfs.cache(cpu, 2, 3, "24M", "0-7");
  }
  const Topology found = sysfs.read(all_up_to(8));
  EXPECT_THAT(found.cpus(), ElementsAre(4, 6, 0, 1, 2, 3, 5, 7));
  EXPECT_EQ(found.performance_cores(), 2);
  EXPECT_EQ(found.caches.l1, 48 << 10) << "those of the cores in use";
  EXPECT_EQ(found.caches.l2_of(2), 2560 << 10);
  EXPECT_THAT(found.text(), testing::StartsWith("2 performance and 4 efficient cores, 2 threads"));
  // A cpuset of efficient cores: none is faster, so that none is left out.
  const Topology slow = sysfs.read({0, 1, 2, 3});
  EXPECT_EQ(slow.performance_cores(), 4);
  EXPECT_EQ(slow.caches.l2_of(4), 4096 << 10) << "four cores share one";
}

TEST(Topology, ArmsCapacitiesTellKinds) {
  Sysfs sysfs;
  const int capacity[] = {250, 250, 760, 760, 1024};
  for (int cpu = 0; cpu < 5; ++cpu) {
    sysfs.write(Sysfs::of(cpu) + "cpu_capacity", std::to_string(capacity[cpu]));
  }
  const Topology found = sysfs.read(all_up_to(5));
  EXPECT_EQ(found.performance_cores(), 3) << "the middle ones are not much slower";
  EXPECT_THAT(found.cpus(), ElementsAre(2, 3, 4, 0, 1));
}

TEST(Topology, OfThisMachineIsWhatThreadsUse) {
  EXPECT_EQ(topology().cpus(), available_cpus());
  EXPECT_LE(available_cores(), topology().performance_cores());
}

}  // namespace
}  // namespace tilewright
