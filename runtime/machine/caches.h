// The data caches of this machine.
#pragma once

#include <cstdint>

namespace tilewright {

struct CacheSizes {
  int64_t l1 = 32 << 10;  // data, per core
  int64_t l2 = 512 << 10;
  int64_t l3 = 0;  // 0: there is none
  int64_t last = 512 << 10;
  int l2_cores = 1, l3_cores = 0;  // how many share one; 0: all of the machine

  // All that so many threads reach, on one core each, where cores that share a cache come together.
  int64_t l2_of(int threads) const;
  int64_t l3_of(int threads) const;
};

// Caches of the cores that threads use first (topology.h); ordinary sizes stand in for what the system
// does not tell.
const CacheSizes& cache_sizes();

}  // namespace tilewright
