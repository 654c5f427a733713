// The data caches of this machine.
#pragma once

#include <cstdint>

namespace tilewright {

struct CacheSizes {
  int64_t l1 = 32 << 10;   // data, a core
  int64_t l2 = 512 << 10;  // a core
  int64_t l3 = 0;          // shared; 0: there is none
  int64_t last = 512 << 10;
};

// From sysfs; ordinary sizes stand in for what it does not tell. Asked once a process.
const CacheSizes& cache_sizes();

}  // namespace tilewright
