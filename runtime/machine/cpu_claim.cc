#include "runtime/machine/cpu_claim.h"

#include <fcntl.h>
#include <sys/file.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/machine/cpus.h"

namespace tilewright {

CpuClaim CpuClaim::take(size_t first) {
  const std::vector<int>& cpus = available_cpus();
  for (size_t i = 0; i < cpus.size(); ++i) {
    const int cpu = cpus[(first + i) % cpus.size()];
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
    UniqueFd lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.valid() && flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      return CpuClaim(cpu, std::move(lock));
    }
  }
  return {};
}

std::vector<CpuClaim> CpuClaim::take_idle() {
  std::vector<CpuClaim> claims;
  for (CpuClaim claim = take(); claim.cpu() >= 0; claim = take()) {
    claims.push_back(std::move(claim));
  }
  return claims;
}

void CpuClaim::pin() const {
  if (cpu_ >= 0) {
    pin_current_thread(cpu_);
  } else {
    unpin_current_thread();
  }
}

}  // namespace tilewright
