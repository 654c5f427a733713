// What is kept of a CUDA program beside its cubin, as JSON: how it is launched, how its weights are
// laid out, and what its compiler made of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/cuda_source.h"

namespace tilewright {

// One kernel as the compiler made it.
struct CudaKernelFacts {
  int registers = 0;        // of a thread
  int64_t stack_bytes = 0;  // of a thread
  // How often instructions that tell how a kernel works stand in its code: HMMA, LDGSTS, LDSM, …
  std::map<std::string, int> instructions;

  // Whether it keeps values in local memory: registers did not suffice.
  bool spills() const { return instructions.count("LDL") + instructions.count("STL") > 0; }
  bool operator==(const CudaKernelFacts&) const = default;
};

// What the emulator counted on a small instance of the workload.
struct EmulatedFacts {
  std::string instance;                     // its spec; empty: it did not run
  std::map<std::string, int64_t> counters;  // by name

  bool operator==(const EmulatedFacts&) const = default;
};

// source.packing as a shared object, so that who loads the kernels needs no compiler.
struct CompiledPacking {
  std::string object;     // empty: not compiled
  std::string processor;  // what runs it, as host_processor() says it
};

struct CudaDescription {
  CudaSource source;                   // without its text, which is kept by itself
  std::vector<CudaKernelFacts> facts;  // a launch each, or none
  CompiledPacking packing = {};        // of source.packing
  EmulatedFacts emulated = {};

  std::string to_json() const;
  // Throws Error that says what is missing or does not fit.
  static CudaDescription from_json(const std::string& text);
};

// The kind of processor that this program was built for: "x86_64", "aarch64".
std::string host_processor();

}  // namespace tilewright
