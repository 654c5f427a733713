// Targets: the properties of a machine that a generated kernel may assume.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernel/cpu_features.h"

namespace tilewright {

// A target that is not available. No target has that name, or (`is_known`) this build or this
// machine lacks what the target needs.
class TargetError : public Error {
 public:
  TargetError(const std::string& message, bool is_known) : Error(message), is_known_(is_known) {}
  bool is_known() const { return is_known_; }

 private:
  bool is_known_;
};

enum class TargetKind : uint8_t { Cpu, Cuda };

// A GPU model as its vendor's data sheets describe it. GPUs of one architecture differ in size; the
// facts are those of the chip that `model` names. Sizes are in bytes. Rates are those of the whole
// chip at its boost clock.
struct GpuFacts {
  std::string model;
  int compute_capability = 0;  // 80 for sm_80
  int sms = 0;
  int64_t shared_per_sm = 0;
  int64_t shared_per_block = 0;  // maximum, on request
  int registers_per_sm = 65536;  // 32-bit registers
  int registers_per_thread = 255;
  int threads_per_sm = 0;
  int threads_per_block = 1024;
  int blocks_per_sm = 0;
  int64_t l2_bytes = 0;
  double bandwidth = 0;  // bytes per second from global memory
  double clock = 0;      // Hz
  // Operations per second (a multiply-add is two); 0 where the chip has no such instructions.
  double f32 = 0, tensor_f16 = 0, tensor_tf32 = 0, tensor_i8 = 0, tensor_f8 = 0;
  // The share of the tensor cores' rates that long products hold, since power limits the clock. It
  // is what others published of cuBLAS on the chip (docs/gpu.md); 0.9 where nothing is known.
  double sustained = 0.9;

  bool has_async_copy() const { return compute_capability >= 80; }
};

// A CPU or a GPU. Sizes are in bytes.
struct Target {
  TargetKind kind = TargetKind::Cpu;
  std::string name;       // "avx512", "avx2", "generic" or "cuda:sm_80"
  int vector_bits = 128;  // width that the code generator uses
  int vector_registers = 16;
  std::set<std::string> features;  // ISA features as cpu_features.h names them
  // Features that only intrinsics use: a kernel needs those of the rows that it calls.
  std::set<std::string> extensions = {};
  std::vector<std::string> flags;  // flags that the C compiler needs
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes = 32 << 20;
  GpuFacts gpu = {};  // for a CUDA target
  // Whether kernels run on a number of threads that a caller chooses. A GPU's launch has its own.
  bool has_threads = true;

  int lanes(int element_bits) const { return vector_bits / element_bits; }
  int f32_lanes() const { return lanes(32); }
  bool has(const std::string& feature) const { return features.count(feature) != 0; }
  bool is_cuda() const { return kind == TargetKind::Cuda; }

  // Features that the target's code needs and `available` lacks, by name; empty where kernels run.
  // "cuda" for CUDA targets.
  std::vector<std::string> missing_features(
      const std::set<std::string>& available = cpu_features()) const;
  // Throws TargetError that names the missing features when kernels do not run on this machine.
  // Kernels of CUDA targets never do: this build runs kernels on CPUs.
  void require_here() const;

  // Parses "native", "avx512", "avx2" or "generic", with more features as in "avx512+amx-tile",
  // "cuda:sm_XX", or a chip such as "cuda:h100": the target of its architecture, by its data sheet.
  // Throws TargetError that lists the names, or the features.
  static Target parse(const std::string& name);
  static std::vector<std::string> names();
  // The widest of the named targets that a processor with these features runs.
  static Target widest(const std::set<std::string>& available);
};

// The CUDA targets, oldest first (kernel/target_cuda.cc).
const std::vector<Target>& cuda_targets();

// A further chip of a target's architecture. Code for both is the same.
struct CudaChip {
  std::string name;  // "cuda:h100"
  Target target;
};
const std::vector<CudaChip>& cuda_chips();

// The data sheet of the device with this name ("NVIDIA H100 80GB HBM3"); the target's own where
// none is known.
GpuFacts data_sheet(const Target& target, std::string_view device);

}  // namespace tilewright
