#include "tuner/measure/roofline.h"

#include <algorithm>
#include <optional>

#include "ir/predicates.h"
#include "ir/visitor.h"
#include "runtime/tensor/operands.h"
#include "tuner/backend.h"

namespace tilewright {
namespace {

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

}  // namespace

RooflineWork roofline_work(const Workload& workload) {
  return {workload.flops, least_bytes(workload), factors_of(workload)};
}

Roofline roofline_of(const Workload& workload, const Target& target, int threads) {
  return Backend::of(target).roofline(roofline_work(workload), target, threads);
}

RooflineShare roofline_share(const Workload& workload, const Target& target, int threads,
                             double seconds) {
  constexpr double kNoise = 1.05;
  const Backend& backend = Backend::of(target);
  const auto fraction = [&] { return roofline_of(workload, target, threads).seconds / seconds; };
  if (seconds <= 0) return {};
  if (fraction() > kNoise) backend.measure_peaks_again();
  const double share = fraction();
  return {share, share > 1 ? backend.above_roofline(threads) : ""};
}

}  // namespace tilewright
