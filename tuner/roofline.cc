#include "tuner/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/predicates.h"
#include "ir/visitor.h"
#include "runtime/machine.h"
#include "runtime/operands.h"

namespace tilewright {
namespace {

Machine& this_machine() {
  static Machine machine = probe_machine();
  return machine;
}

// The cause of a run that is faster than the roof.
std::string cause_of(const Target& target, int threads) {
  const std::string leaves_out = "the kernel leaves out operations that the workload's count has";
  if (target.is_cuda()) return leaves_out + ", or the GPU exceeds its data sheet";
  const Machine& machine = this_machine();
  if (!machine.disturbed.empty()) {
    return "the machine's peaks were measured while something disturbed them: " + machine.disturbed;
  }
  return fmt::format("{}, or the peaks are too low, whose rounds were {:.0f}% apart", leaves_out,
                     100 * machine.rates(threads).spread);
}

// The most elements of an operand that can be read: the number of points of the reading stages.
// This holds if data-dependent indices select the elements in every read. Nothing if some read is
// not data-dependent.
std::optional<int64_t> picked_elements(const Workload& workload, const std::string& operand,
                                       const std::map<std::string, int64_t>& dims) {
  int64_t most = 0;
  bool all_picked = true;
  for (const Stage& stage : workload.stages) {
    int64_t points = 1;
    auto count = [&](const Expr& extent) {
      auto* v = extent.as<VarNode>();
      points *= v ? dims.at(v->name) : as_int(extent).value_or(1);
    };
    for (const Expr& extent : stage.output->shape) count(extent);
    for (const ReduceAxis& axis : stage.reduce_axes) count(axis.extent);
    for_each_expr(stage.value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (!load || load->buffer->name != operand) return;
      all_picked &= std::any_of(load->indices.begin(), load->indices.end(), reads_memory);
      most += points;
    });
  }
  return all_picked && most > 0 ? std::optional(most) : std::nullopt;
}

// The type of the factors in most of the work: that of both factors of a sum of products, where u8
// counts as i8. Beside a weight in a form of its own it is the other operand's type, in which
// instructions take the weight's codes. Otherwise f32.
ElemType factors_of(const Workload& workload) {
  for (const Stage& stage : workload.stages) {
    auto* product = stage.reducer == Reducer::Sum ? stage.value.as<BinaryNode>() : nullptr;
    if (!product || product->op != BinaryOp::Mul) continue;
    auto stored = [](const Expr& e) {
      auto* widened = e.as<CastNode>();
      ElemType type = (widened ? widened->value : e).type().elem;
      return type == ElemType::u8 ? ElemType::i8 : type;
    };
    ElemType a = stored(product->a), b = stored(product->b);
    if (a == b) return a;
    if (workload.weight) return bits_of(a) < bits_of(b) ? a : b;
  }
  return ElemType::f32;
}

// Bytes of the operands, read and written once.
double least_bytes(const Workload& workload) {
  std::map<std::string, int64_t> dims = largest_sizes(workload);
  double bytes = 0;
  for (const OperandInfo& o : operands_of(workload, dims)) {
    int64_t elements = 1;
    for (int64_t extent : o.shape) elements *= extent;
    if (auto picked = picked_elements(workload, o.name, dims)) {
      elements = std::min(elements, *picked);
    }
    bytes += static_cast<double>(bytes_for(o.elem, elements));
  }
  return bytes;
}

// A GPU's operations per second on products of this type, by its data sheet.
double operations(const GpuFacts& gpu, ElemType factors) {
  double rate = 0;
  if (factors == ElemType::f16 || factors == ElemType::bf16) rate = gpu.tensor_f16;
  if (bits_of(factors) <= 8) rate = is_float(factors) ? gpu.tensor_f8 : gpu.tensor_i8;
  return rate > 0 ? rate : gpu.f32;
}

}  // namespace

Roofline roofline_of(const Workload& workload, int threads) {
  double bytes = least_bytes(workload);
  const Machine& machine = this_machine();
  double compute = machine.roofline_seconds(workload.flops, 0, threads, factors_of(workload));
  double memory = machine.roofline_seconds(0, bytes, threads);
  return {std::max(compute, memory), bytes,
          memory > compute ? machine.home_of(bytes, threads) : "compute"};
}

Roofline roofline_of(const Workload& workload, const Target& target, int threads) {
  if (!target.is_cuda()) return roofline_of(workload, threads);
  double bytes = least_bytes(workload);
  double compute = workload.flops / operations(target.gpu, factors_of(workload));
  double memory = bytes / target.gpu.bandwidth;
  return {std::max(compute, memory), bytes, memory > compute ? "memory" : "compute"};
}

RooflineShare roofline_share(const Workload& workload, const Target& target, int threads,
                             double seconds) {
  constexpr double kNoise = 1.05;
  const auto fraction = [&] { return roofline_of(workload, target, threads).seconds / seconds; };
  if (seconds <= 0) return {};
  if (!target.is_cuda() && fraction() > kNoise) {
    static const bool again = (this_machine() = probe_machine(/*fresh=*/true), true);
    static_cast<void>(again);
  }
  const double share = fraction();
  return {share, share > 1 ? cause_of(target, threads) : ""};
}

MachineRates machine_rates(int threads) { return this_machine().rates(threads); }

}  // namespace tilewright
