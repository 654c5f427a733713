#include "runtime/machine/caches.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/files.h"

namespace tilewright {
namespace {

// "32K", "1024K" or "32M".
int64_t parse_size(const std::string& text) {
  char* end = nullptr;
  int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (*end == 'K') value <<= 10;
  if (*end == 'M') value <<= 20;
  return value;
}

CacheSizes read_sizes() {
  int64_t level[4] = {0, 0, 0, 0};
  for (int index = 0; index < 8; ++index) {
    std::string base = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    std::optional<std::string> depth = read_file(base + "level"), type = read_file(base + "type");
    std::optional<std::string> size = read_file(base + "size");
    if (!depth || !type || !size || type->starts_with("Instruction")) continue;
    int l = std::atoi(depth->c_str());
    if (l >= 1 && l <= 3) level[l] = parse_size(*size);
  }
  if (level[1] == 0) level[1] = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (level[2] == 0) level[2] = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (level[3] == 0) level[3] = sysconf(_SC_LEVEL3_CACHE_SIZE);
  CacheSizes sizes;
  if (level[1] > 0) sizes.l1 = level[1];
  if (level[2] > 0) sizes.l2 = level[2];
  if (level[3] > 0) sizes.l3 = level[3];
  sizes.last = std::max(sizes.l2, sizes.l3);
  return sizes;
}

}  // namespace

const CacheSizes& cache_sizes() {
  static const CacheSizes sizes = read_sizes();
  return sizes;
}

}  // namespace tilewright
