// Rates of a processor core per cycle, by the chip's family.
#pragma once

#include <string>

#include "kernel/target.h"

namespace tilewright {

// Pipes work on vectors of `bits`; a wider vector passes several times. Rates are passes per cycle.
struct CpuCore {
  int bits = 256;
  double multiply = 2;  // products, fused multiply-adds and dot products
  double floats = 2;    // these and sums together
  double shuffle = 1;   // permutations and conversions between widths
  double vector = 3;    // all vector arithmetic together
  double load = 2, store = 1;
  double issue = 4;     // instructions
  double window = 224;  // instructions in flight (the reorder buffer)
  // Cycles until a result can be used: of a multiply-add, and of a store by a load from there.
  double latency = 4, forward = 5;
  double divide = 10;  // passes of `multiply` that a division of a vector takes
  double pairs = 1;    // passes of `multiply` that a dot product of bf16 pairs takes, at any width
  double mispredict = 15;

  // f32 operations per cycle, two a multiply-add.
  double f32_per_cycle() const { return 2 * multiply * bits / 32; }
};

// The core of the chip with this signature (cpu_signature()) when it runs code for `target`.
CpuCore core_of(const std::string& signature, const Target& target);

}  // namespace tilewright
