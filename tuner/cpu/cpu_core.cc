// Numbers of Intel's cores are those of "Intel 64 and IA-32 Architectures Optimization Reference
// Manual"; of AMD's, "Software Optimization Guide for the AMD Zen4 Microarchitecture" (57647) and its
// predecessors. Latencies and divisions were compared with uops.info (Abel and Reineke, ASPLOS 2019).
#include "tuner/cpu/cpu_core.h"

#include <cstdio>

namespace tilewright {
namespace {

constexpr int kWidestVector = 512;

CpuCore zen(int family) {
  CpuCore c;
  c.floats = 4;
  c.shuffle = 2;
  c.vector = 4;
  c.issue = 6;
  c.window = 320;
  constexpr int kZen5 = 26;
  if (family < kZen5) return c;
  c.bits = kWidestVector;
  c.issue = 8;
  c.window = 448;
  return c;
}

// Servers have a second multiplier of 512 bits. Narrower vectors have a third port.
CpuCore intel(const Target& target) {
  CpuCore c;
  c.issue = 6;
  c.window = 512;
  if (target.vector_bits < kWidestVector) return c;
  c.bits = kWidestVector;
  c.vector = 2;
  c.divide = 16;
  c.pairs =
      4;  // VDPBF16PS is measured at one in two cycles, in 256 and in 512 bits (family 6 model 167)
  return c;
}

}  // namespace

CpuCore core_of(const std::string& signature, const Target& target) {
  int family = 0;
  if (std::sscanf(signature.c_str(), "AuthenticAMD-%d", &family) == 1) return zen(family);
  if (target.vector_bits >= kWidestVector || signature.starts_with("GenuineIntel"))
    return intel(target);
  CpuCore c;
  c.bits = target.vector_bits;
  return c;
}

}  // namespace tilewright
