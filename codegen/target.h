// Targets: what a generated kernel may assume of the machine that runs it.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tilewright {

// A CPU target. Sizes are in bytes.
struct Target {
  std::string name;       // "avx512", "avx2" or "generic"
  int vector_bits = 128;  // width that the code generator uses
  int vector_registers = 16;
  std::set<std::string> features;  // ISA features as cpu_features.h names them
  std::vector<std::string> flags;  // what the C compiler must be told
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;

  int lanes(int element_bits) const { return vector_bits / element_bits; }
  int f32_lanes() const { return lanes(32); }
  bool has(const std::string& feature) const { return features.count(feature) != 0; }

  // "native" (what this machine has), "avx512", "avx2" or "generic"; throws Error that lists them.
  static Target parse(const std::string& name);
  static std::vector<std::string> names();
};

}  // namespace tilewright
