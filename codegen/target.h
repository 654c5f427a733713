// Targets: what a generated kernel may assume of the machine that runs it.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/cpu_features.h"
#include "ir/error.h"

namespace tilewright {

// A target that cannot be had: there is none of that name, or (`is_known`) this build or this
// machine lacks what it takes.
class TargetError : public Error {
 public:
  TargetError(const std::string& message, bool is_known) : Error(message), is_known_(is_known) {}
  bool is_known() const { return is_known_; }

 private:
  bool is_known_;
};

// A CPU target. Sizes are in bytes.
struct Target {
  std::string name;       // "avx512", "avx2" or "generic"
  int vector_bits = 128;  // width that the code generator uses
  int vector_registers = 16;
  std::set<std::string> features;  // ISA features as cpu_features.h names them
  // Features that only intrinsics make use of: a kernel needs those of the rows that it calls.
  std::set<std::string> extensions = {};
  std::vector<std::string> flags;  // what the C compiler must be told
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;

  int lanes(int element_bits) const { return vector_bits / element_bits; }
  int f32_lanes() const { return lanes(32); }
  bool has(const std::string& feature) const { return features.count(feature) != 0; }

  // What its code needs of a processor and `available` lacks, by name: none where kernels run.
  std::vector<std::string> missing_features(
      const std::set<std::string>& available = cpu_features()) const;
  // Throws TargetError that names the missing features when kernels do not run on this machine.
  void require_here() const;

  // "native" (what this machine has), "avx512", "avx2" or "generic"; throws TargetError that lists
  // them.
  static Target parse(const std::string& name);
  static std::vector<std::string> names();
  // The widest of the named targets that a processor with these features runs.
  static Target widest(const std::set<std::string>& available);
};

}  // namespace tilewright
