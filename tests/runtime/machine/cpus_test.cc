// Which processors a process may use, how many at once, and who is pinned where.
#include "runtime/machine/cpus.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "runtime/machine/cpu_claim.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

// A system's files, as far as they tell quotas.
class System {
 public:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double quota() const { return cpu_quota(folder_.path()); }

 private:
  test::TempDir folder_;
};

TEST(CpuQuota, NoneWhereNothingSaysSo) {
  System system;
  EXPECT_EQ(system.quota(), 0);
  system.write("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(system.quota(), 0);
  system.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(system.quota(), 0);
  system.write("/sys/fs/cgroup/cpu.max", "nonsense\n");
  EXPECT_EQ(system.quota(), 0);
}

TEST(CpuQuota, TheLeastOfAGroupAndThoseThatHoldIt) {
  System system;
  system.write("/proc/self/cgroup", "1:name=systemd:/x\n0::/pod/container\n");
  system.write("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  system.write("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(system.quota(), 1.5);
  system.write("/sys/fs/cgroup/pod/container/cpu.max", "50000 100000\n");
  EXPECT_EQ(system.quota(), 0.5);
  system.write("/sys/fs/cgroup/pod/container/cpu.max", "400000 100000\n");
  EXPECT_EQ(system.quota(), 1.5);
}

TEST(CpuQuota, OfVersionOneInItsOwnPlaceOrAContainersRoot) {
  System system;
  system.write("/proc/self/cgroup", "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n");
  system.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  system.write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(system.quota(), 2);
  system.write("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us", "-1\n");
  system.write("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(system.quota(), 2);
}

TEST(Cpus, NoMoreCoresThanThreadsThanProcessors) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), available_threads());
  EXPECT_LE(available_threads(), static_cast<int>(available_cpus().size()));
}

// Claims as many processors as there are and one more, in this process.
std::vector<CpuClaim> claim_all() {
  std::vector<CpuClaim> claims;
  for (size_t i = 0; i <= available_cpus().size(); ++i) claims.push_back(CpuClaim::take(i));
  return claims;
}

TEST(CpuClaim, NoProcessorIsClaimedTwice) {
  std::vector<CpuClaim> claims = claim_all();
  std::multiset<int> cpus;
  for (const CpuClaim& claim : claims) {
    if (claim.cpu() >= 0) cpus.insert(claim.cpu());
  }
  for (int cpu : cpus) EXPECT_EQ(cpus.count(cpu), 1u) << cpu;
  EXPECT_EQ(claims.back().cpu(), -1) << "there is one more than processors";
}

TEST(CpuClaim, HoldsAgainstOtherProcessesUntilItEnds) {
  std::vector<CpuClaim> claims = claim_all();
  if (claims.front().cpu() < 0) GTEST_SKIP() << "others have them";
  const int cpu = claims.front().cpu();
  // What another process finds when it looks for this processor.
  const auto found_by_another = [&] {
    const pid_t child = fork();
    if (child == 0) {
      bool found = false;
      for (const CpuClaim& claim : claim_all()) found |= claim.cpu() == cpu;
      _exit(found ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
  };
  EXPECT_FALSE(found_by_another());
  claims.clear();
  bool found = false;  // another test may claim it meanwhile, and let it go
  for (int i = 0; i < 200 && !found; ++i) {
    found = found_by_another();
    if (!found) usleep(10'000);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tilewright
