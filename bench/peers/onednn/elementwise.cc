// Functions of one and of two elements.
#include <map>

#include "bench/peers/onednn/primitives.h"

namespace tilewright::peers {
namespace {

struct Function {
  dnnl::algorithm algorithm;
  float alpha = 0;
  float beta = 0;
};

void make_unary(const Function& function, const dnnl::memory::desc& x, const dnnl::memory::desc& y,
                const Operands& operands, PrimitiveProblem& problem) {
  const dnnl::eltwise_forward::primitive_desc plan(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                   function.algorithm, x, y, function.alpha,
                                                   function.beta);
  problem.add(DNNL_ARG_SRC, x, operands, "X");
  problem.add(DNNL_ARG_DST, y, operands, "Y");
  problem.set<dnnl::eltwise_forward>(plan);
}

void make_binary(dnnl::algorithm algorithm, const dnnl::memory::desc& x,
                 const dnnl::memory::desc& y, const Operands& operands, PrimitiveProblem& problem) {
  const dnnl::binary::primitive_desc plan(cpu_engine(), algorithm, x, x, y);
  problem.add(DNNL_ARG_SRC_0, x, operands, "X");
  problem.add(DNNL_ARG_SRC_1, x, operands, "Z");
  problem.add(DNNL_ARG_DST, y, operands, "Y");
  problem.set<dnnl::binary>(plan);
}

}  // namespace

void make_elementwise(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  using Algorithm = dnnl::algorithm;
  static const std::map<std::string, Function> kUnary = {
      {"relu", {Algorithm::eltwise_relu}},     {"gelu", {Algorithm::eltwise_gelu_erf}},
      {"silu", {Algorithm::eltwise_swish, 1}}, {"tanh", {Algorithm::eltwise_tanh}},
      {"exp", {Algorithm::eltwise_exp}},       {"sqrt", {Algorithm::eltwise_sqrt}},
      {"abs", {Algorithm::eltwise_abs}},       {"sigmoid", {Algorithm::eltwise_logistic}},
      {"square", {Algorithm::eltwise_square}}};
  static const std::map<std::string, Algorithm> kBinary = {
      {"add", Algorithm::binary_add}, {"mul", Algorithm::binary_mul},
      {"sub", Algorithm::binary_sub}, {"div", Algorithm::binary_div},
      {"max", Algorithm::binary_max}, {"min", Algorithm::binary_min}};
  const Types types = types_of(spec);
  const Dims dims = spec.sizes("shape");
  const auto x = dense(dims, types.in), y = dense(dims, types.out);
  const std::string name = spec.text("fn", "");
  if (auto unary = kUnary.find(name); unary != kUnary.end()) {
    return make_unary(unary->second, x, y, operands, problem);
  }
  if (auto binary = kBinary.find(name); binary != kBinary.end()) {
    return make_binary(binary->second, x, y, operands, problem);
  }
  throw Unsupported("no function " + name);
}

}  // namespace tilewright::peers
