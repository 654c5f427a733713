// CUDA targets: one GPU per architecture, and further chips, by their vendor's data sheets and the
// tables of the CUDA programming guide (compute capabilities). These are the numbers of a model;
// none was measured here.
#include "kernel/target.h"

namespace tilewright {
namespace {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;
constexpr double kGiga = 1e9, kTera = 1e12;

Target cuda(const std::string& architecture, GpuFacts facts) {
  Target t;
  t.kind = TargetKind::Cuda;
  t.name = "cuda:" + architecture;
  t.vector_bits = 128;  // the widest access of one thread
  t.vector_registers = facts.registers_per_thread;
  t.l2_bytes = facts.l2_bytes;
  t.gpu = std::move(facts);
  t.has_threads = false;
  return t;
}

GpuFacts turing() {
  GpuFacts g;
  g.model = "T4";
  g.compute_capability = 75;
  g.sms = 40;
  g.shared_per_sm = g.shared_per_block = 64 * kKiB;
  g.threads_per_sm = 1024;
  g.blocks_per_sm = 16;
  g.l2_bytes = 4 * kMiB;
  g.bandwidth = 320 * kGiga;
  g.clock = 1.59 * kGiga;
  g.f32 = 8.1 * kTera;
  g.tensor_f16 = 65 * kTera;
  g.tensor_i8 = 130 * kTera;
  return g;
}

GpuFacts ampere() {
  GpuFacts g;
  g.model = "A100 SXM4 80GB";
  g.compute_capability = 80;
  g.sms = 108;
  g.shared_per_sm = 164 * kKiB;
  g.shared_per_block = 163 * kKiB;
  g.threads_per_sm = 2048;
  g.blocks_per_sm = 32;
  g.l2_bytes = 40 * kMiB;
  g.bandwidth = 2039 * kGiga;
  g.clock = 1.41 * kGiga;
  g.f32 = 19.5 * kTera;
  g.tensor_f16 = 312 * kTera;
  g.tensor_tf32 = 156 * kTera;
  g.tensor_i8 = 624 * kTera;
  return g;
}

GpuFacts ampere_small() {
  GpuFacts g;
  g.model = "A10";
  g.compute_capability = 86;
  g.sms = 72;
  g.shared_per_sm = 100 * kKiB;
  g.shared_per_block = 99 * kKiB;
  g.threads_per_sm = 1536;
  g.blocks_per_sm = 16;
  g.l2_bytes = 6 * kMiB;
  g.bandwidth = 600 * kGiga;
  g.clock = 1.695 * kGiga;
  g.f32 = 31.2 * kTera;
  g.tensor_f16 = 125 * kTera;
  g.tensor_tf32 = 62.5 * kTera;
  g.tensor_i8 = 250 * kTera;
  return g;
}

GpuFacts ada() {
  GpuFacts g;
  g.model = "L40S";
  g.compute_capability = 89;
  g.sms = 142;
  g.shared_per_sm = 100 * kKiB;
  g.shared_per_block = 99 * kKiB;
  g.threads_per_sm = 1536;
  g.blocks_per_sm = 24;
  g.l2_bytes = 96 * kMiB;
  g.bandwidth = 864 * kGiga;
  g.clock = 2.52 * kGiga;
  g.f32 = 91.6 * kTera;
  g.tensor_f16 = 362 * kTera;
  g.tensor_tf32 = 183 * kTera;
  g.tensor_i8 = 733 * kTera;
  g.tensor_f8 = 733 * kTera;
  return g;
}

GpuFacts hopper() {
  GpuFacts g;
  g.model = "H200 SXM";
  g.compute_capability = 90;
  g.sms = 132;
  g.shared_per_sm = 228 * kKiB;
  g.shared_per_block = 227 * kKiB;
  g.threads_per_sm = 2048;
  g.blocks_per_sm = 32;
  g.l2_bytes = 60 * kMiB;
  g.bandwidth = 4800 * kGiga;
  g.clock = 1.98 * kGiga;
  g.f32 = 67 * kTera;
  g.tensor_f16 = 989 * kTera;
  g.tensor_tf32 = 494 * kTera;
  g.tensor_i8 = 1979 * kTera;
  g.tensor_f8 = 1979 * kTera;
  g.sustained = 0.8;  // cuBLAS: 795 of 989 TFLOP/s at 8192 x 8192 x 8192
  return g;
}

GpuFacts h100() {
  GpuFacts g = hopper();
  g.model = "H100 SXM";
  g.l2_bytes = 50 * kMiB;
  g.bandwidth = 3350 * kGiga;
  return g;
}

GpuFacts blackwell() {
  GpuFacts g;
  g.model = "B200";
  g.compute_capability = 100;
  g.sms = 148;
  g.shared_per_sm = 228 * kKiB;
  g.shared_per_block = 227 * kKiB;
  g.threads_per_sm = 2048;
  g.blocks_per_sm = 32;
  g.l2_bytes = 126 * kMiB;
  g.bandwidth = 8000 * kGiga;
  g.clock = 1.965 * kGiga;
  g.f32 = 75 * kTera;
  g.tensor_f16 = 2250 * kTera;
  g.tensor_tf32 = 1125 * kTera;
  g.tensor_i8 = 4500 * kTera;
  g.tensor_f8 = 4500 * kTera;
  g.sustained = 0.73;  // cuBLAS: 1650 of 2250 TFLOP/s
  return g;
}

GpuFacts blackwell_small() {
  GpuFacts g;
  g.model = "GeForce RTX 5090";
  g.compute_capability = 120;
  g.sms = 170;
  g.shared_per_sm = 100 * kKiB;
  g.shared_per_block = 99 * kKiB;
  g.threads_per_sm = 1536;
  g.blocks_per_sm = 24;
  g.l2_bytes = 96 * kMiB;
  g.bandwidth = 1792 * kGiga;
  g.clock = 2.41 * kGiga;
  g.f32 = 104.8 * kTera;
  g.tensor_f16 = 209.5 * kTera;
  g.tensor_tf32 = 104.8 * kTera;
  g.tensor_i8 = 838 * kTera;
  g.tensor_f8 = 419 * kTera;
  return g;
}

}  // namespace

const std::vector<Target>& cuda_targets() {
  static const std::vector<Target> targets = {
      cuda("sm_75", turing()),          cuda("sm_80", ampere()),
      cuda("sm_86", ampere_small()),    cuda("sm_89", ada()),
      cuda("sm_90a", hopper()),         cuda("sm_100", blackwell()),
      cuda("sm_120", blackwell_small())};
  return targets;
}

const std::vector<CudaChip>& cuda_chips() {
  static const std::vector<CudaChip> chips = {{"cuda:h100", cuda("sm_90a", h100())}};
  return chips;
}

GpuFacts data_sheet(const Target& target, std::string_view device) {
  for (const CudaChip& chip : cuda_chips()) {
    const std::string& model = chip.target.gpu.model;
    const std::string word = model.substr(0, model.find(' '));  // in the names of its devices, too
    const bool is_it = device.find(word) != std::string_view::npos;
    if (is_it && chip.target.name == target.name) return chip.target.gpu;
  }
  return target.gpu;
}

}  // namespace tilewright
