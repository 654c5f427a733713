// The description kept with a CUDA program's cubin, as JSON: its launches, the layout of its
// weights, and facts of its compilation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernel/cuda_source.h"

namespace tilewright {

// Facts of one compiled kernel.
struct CudaKernelFacts {
  int registers = 0;        // per thread
  int64_t stack_bytes = 0;  // per thread
  // Counts of the instructions in its code that tell how a kernel works: HMMA, LDGSTS, LDSM, ….
  std::map<std::string, int> instructions;

  // Whether it keeps values in local memory, because registers did not suffice.
  bool spills() const { return instructions.count("LDL") + instructions.count("STL") > 0; }
  bool operator==(const CudaKernelFacts&) const = default;
};

// The emulator's counts on a small instance of the workload.
struct EmulatedFacts {
  std::string instance;                     // its spec; empty: it did not run
  std::map<std::string, int64_t> counters;  // by name

  bool operator==(const EmulatedFacts&) const = default;
};

// source.packing as a shared object, so that whoever loads the kernels needs no compiler.
struct CompiledPacking {
  std::string object;     // empty: not compiled
  std::string processor;  // the processor that runs it, as host_processor() names it
};

struct CudaDescription {
  CudaSource source;                   // without its text, which is stored separately
  std::vector<CudaKernelFacts> facts;  // one per launch, or none
  CompiledPacking packing = {};        // source.packing, compiled
  EmulatedFacts emulated = {};

  std::string to_json() const;
  // Throws Error that says what is missing or does not fit.
  static CudaDescription from_json(const std::string& text);
};

// The kind of processor that this program was built for: "x86_64", "aarch64".
std::string host_processor();

}  // namespace tilewright
