// The analytical model of CPU kernels: predicts seconds from a lowered program and the machine's
// measured rates, without compiling or running it (docs/search.md).
#pragma once

#include <array>
#include <string>

#include "ir/stmt.h"
#include "kernel/target.h"
#include "runtime/machine/machine.h"
#include "tuner/cpu/cpu_code.h"
#include "tuner/cpu/cpu_core.h"
#include "tuner/cpu/cpu_traffic.h"

namespace tilewright {

// The machine as the model sees it.
struct CpuFacts {
  CpuCore core;
  double clock = 0;                      // Hz, of one core at work
  std::array<double, 3> bandwidth = {};  // bytes a second of one thread from L2, L3 and memory

  // By the rates of this many threads.
  static CpuFacts of(const Machine& machine, const Target& target, int threads);
};

// Cycles of one thread. The parts overlap: their sum is no total.
struct CpuCycles {
  double total = 0;
  CpuPasses passes = {};
  double waiting = 0;  // for sums of earlier iterations, beyond the busiest pipe
  double control = 0;  // beginnings and ends of loops, mispredicted branches
  double spills = 0;   // registers that do not fit, per execution

  // Adds `times` as many.
  void add(const CpuCycles& other, double times = 1);
  // Adds cycles that no pipe accounts for.
  void add_control(double cycles) { total += cycles, control += cycles; }
};

struct CpuEstimate {
  double seconds = 0;                 // 0: it cannot be lowered
  double compute = 0;                 // of one thread's instructions alone
  std::array<double, 3> memory = {};  // of its traffic from L2, L3 and memory alone
  double translation = 0;             // of addresses of pages
  CpuCycles cycles = {};              // of `compute`
  double stores = 0;                  // in the code, each copy of an unrolled loop by itself
  std::string refusal = {};           // why it cannot be lowered
};

// A program as scheduled, at its largest sizes. `nest`, if given, gets the program as lowered before
// its loops are partitioned.
CpuEstimate estimate_cpu(const Program& scheduled, const Target& target, int threads,
                         const CpuFacts& facts, Program* nest = nullptr);

}  // namespace tilewright
