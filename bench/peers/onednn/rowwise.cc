// Operators over rows: softmax, normalizations, reductions.
#include <map>

#include "bench/peers/onednn/primitives.h"

namespace tilewright::peers {
namespace {

constexpr auto kInference = dnnl::prop_kind::forward_inference;

dnnl::primitive_attr scratch_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void make_softmax(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  const Types types = types_of(spec);
  const Dims dims = {spec.size("m"), spec.size("n")};
  const auto x = dense(dims, types.in), y = dense(dims, types.out);
  const dnnl::softmax_forward::primitive_desc plan(
      cpu_engine(), kInference, dnnl::algorithm::softmax_accurate, x, y, 1, scratch_attributes());
  problem.add(DNNL_ARG_SRC, x, operands, "X");
  problem.add(DNNL_ARG_DST, y, operands, "Y");
  problem.set<dnnl::softmax_forward>(plan);
}

void make_norm_of_rows(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  using Flags = dnnl::normalization_flags;
  const Types types = types_of(spec);
  const Dims dims = {spec.size("m"), spec.size("n")};
  const auto x = dense(dims, types.in), y = dense(dims, types.out);
  const auto scale = dense({dims[1]}, Type::f32);
  Flags flags = Flags::none;
  if (operands.has("gamma")) flags = flags | Flags::use_scale;
  if (operands.has("beta")) flags = flags | Flags::use_shift;
  if (spec.op() == "rms_norm") {
#if DNNL_VERSION_MAJOR > 3 || DNNL_VERSION_MINOR >= 8
    flags = flags | Flags::rms_norm;
#else
    throw Unsupported("no rms_norm before oneDNN 3.8");
#endif
  }
  const float epsilon = static_cast<float>(spec.number("eps", 1e-5));
  const dnnl::layer_normalization_forward::primitive_desc plan(
      cpu_engine(), kInference, x, y, epsilon, flags, scratch_attributes());
  problem.add(DNNL_ARG_SRC, x, operands, "X");
  problem.add(DNNL_ARG_DST, y, operands, "Y");
  if (operands.has("gamma")) problem.add(DNNL_ARG_SCALE, scale, operands, "gamma");
  if (operands.has("beta")) problem.add(DNNL_ARG_SHIFT, scale, operands, "beta");
  problem.set<dnnl::layer_normalization_forward>(plan);
}

// `reduced[i]`: axis i collapses. The caller's output has no such axes, which is the same memory.
void make_reduction(dnnl::algorithm algorithm, const Dims& dims, const std::vector<bool>& reduced,
                    float p, const Types& types, const Operands& operands,
                    PrimitiveProblem& problem) {
  Dims out = dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (reduced[i]) out[i] = 1;
  }
  const auto x = dense(dims, types.in), y = dense(out, types.out);
  const dnnl::reduction::primitive_desc plan(cpu_engine(), algorithm, x, y, p, 0.0f,
                                             scratch_attributes());
  problem.add(DNNL_ARG_SRC, x, operands, "X");
  problem.add(DNNL_ARG_DST, y, operands, "Y");
  problem.set<dnnl::reduction>(plan);
}

void make_reduce(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  static const std::map<std::string, dnnl::algorithm> kKinds = {
      {"sum", dnnl::algorithm::reduction_sum},
      {"max", dnnl::algorithm::reduction_max},
      {"min", dnnl::algorithm::reduction_min},
      {"mean", dnnl::algorithm::reduction_mean}};
  const auto kind = kKinds.find(spec.text("kind", "sum"));
  if (kind == kKinds.end()) throw Unsupported("no reduction " + spec.text("kind", "sum"));
  const Dims dims = spec.sizes("shape");
  std::vector<bool> reduced(dims.size());
  for (int64_t axis : spec.sizes("axes")) {
    reduced.at(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis) = true;
  }
  make_reduction(kind->second, dims, reduced, 0, types_of(spec), operands, problem);
}

}  // namespace

void make_rowwise(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  if (spec.op() == "softmax") return make_softmax(spec, operands, problem);
  if (spec.op() == "reduce") return make_reduce(spec, operands, problem);
  if (spec.op() == "norm") {  // Frobenius: the 2-norm of each matrix
    return make_reduction(dnnl::algorithm::reduction_norm_lp_sum,
                          {spec.size("b"), spec.size("m"), spec.size("n")}, {false, true, true}, 2,
                          types_of(spec), operands, problem);
  }
  make_norm_of_rows(spec, operands, problem);
}

}  // namespace tilewright::peers
