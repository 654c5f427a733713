// Bytes that a loop nest moves between the levels of the memory.
#pragma once

#include <array>

#include "ir/stmt.h"
#include "kernel/target.h"

namespace tilewright {

// Bytes that come into L1, L2 and L3 from the level behind, written ones twice: they are read before
// and written back. `pages` is how often a page's address has to be translated anew, since the first table of
// addresses (L1 TLB) no longer has it.
struct CpuTraffic {
  std::array<double, 3> bytes = {};
  double pages = 0;
};

// The traffic of one thread's share of repeated runs, of a program without blocks before its buffers are flattened
// (lower_blocks, compact_buffers). Dynamic dimensions are at their maximum.
//
// The estimate is that of "A data locality optimizing algorithm" (Wolf and Lam, PLDI 1991). Where the
// body of a loop fits a cache, the loop loads what it touches once; else the body's loads repeat. Whole
// cache lines count, and the fullest set has to hold each buffer's lines. The table of addresses is a cache of
// pages. A program that fits a cache finds its operands there from the run before.
CpuTraffic traffic_of(const Program& nest, const Target& target, int threads);

}  // namespace tilewright
