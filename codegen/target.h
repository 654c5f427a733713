// Targets: what a generated kernel may assume of the machine that runs it.
#pragma once

#include <cstdint>
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

enum class TargetKind : uint8_t { Cpu, Cuda };

// A GPU as a model of it is given in its vendor's data sheets: no number here was measured. Those of
// one architecture differ in size; the facts are those of the chip that `model` names. Sizes are in
// bytes, rates of the whole chip at its boost clock.
struct GpuFacts {
  std::string model;
  int compute_capability = 0;  // 80 for sm_80
  int sms = 0;
  int64_t shared_per_sm = 0;
  int64_t shared_per_block = 0;  // at most, when asked for
  int registers_per_sm = 65536;  // of 32 bits
  int registers_per_thread = 255;
  int threads_per_sm = 0;
  int threads_per_block = 1024;
  int blocks_per_sm = 0;
  int64_t l2_bytes = 0;
  double bandwidth = 0;  // bytes a second from global memory
  double clock = 0;      // Hz
  // Operations a second (a multiply-add is two); 0 where the chip has no such instructions.
  double f32 = 0, tensor_f16 = 0, tensor_tf32 = 0, tensor_i8 = 0, tensor_f8 = 0;

  int warp_lanes() const { return 32; }
  bool has_async_copy() const { return compute_capability >= 80; }
};

// A CPU or a GPU. Sizes are in bytes.
struct Target {
  TargetKind kind = TargetKind::Cpu;
  std::string name;       // "avx512", "avx2", "generic" or "cuda:sm_80"
  int vector_bits = 128;  // width that the code generator uses
  int vector_registers = 16;
  std::set<std::string> features;  // ISA features as cpu_features.h names them
  // Features that only intrinsics make use of: a kernel needs those of the rows that it calls.
  std::set<std::string> extensions = {};
  std::vector<std::string> flags;  // what the C compiler must be told
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;
  GpuFacts gpu = {};  // of a CUDA target

  int lanes(int element_bits) const { return vector_bits / element_bits; }
  int f32_lanes() const { return lanes(32); }
  bool has(const std::string& feature) const { return features.count(feature) != 0; }
  bool is_cuda() const { return kind == TargetKind::Cuda; }

  // What its code needs of a processor and `available` lacks, by name: none where kernels run. "cuda"
  // for CUDA targets.
  std::vector<std::string> missing_features(
      const std::set<std::string>& available = cpu_features()) const;
  // Throws TargetError that names the missing features when kernels do not run on this machine, as
  // those of CUDA targets do not: this build runs kernels on CPUs.
  void require_here() const;

  // "native", "avx512", "avx2" or "generic", that take more features as in "avx512+amx-tile", or
  // "cuda:sm_XX"; throws TargetError that lists the names, or the features.
  static Target parse(const std::string& name);
  static std::vector<std::string> names();
  // The widest of the named targets that a processor with these features runs.
  static Target widest(const std::set<std::string>& available);
};

// The CUDA targets, oldest first (codegen/target_cuda.cc).
const std::vector<Target>& cuda_targets();

}  // namespace tilewright
