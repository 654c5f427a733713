// Matrix products, with weights in the layout that oneDNN chooses.
#include "bench/peers/onednn/primitives.h"

namespace tilewright::peers {

void make_matmul(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  if (spec.has("a.dtype")) throw Unsupported("no rows quantized to " + spec.text("a.dtype", ""));
  const Types types = types_of(spec);
  const int64_t batch = spec.size("batch", 1);
  const int64_t m = spec.size("m"), n = spec.size("n"), k = spec.size("k");
  auto dims = [&](int64_t rows, int64_t columns) {
    return batch > 1 ? Dims{batch, rows, columns} : Dims{rows, columns};
  };
  auto stored = [&](int64_t rows, int64_t columns, Type type, bool transposed) {
    std::vector<int> order = transposed ? std::vector<int>{1, 0} : std::vector<int>{0, 1};
    if (batch > 1) order = transposed ? std::vector<int>{0, 2, 1} : std::vector<int>{0, 1, 2};
    return dense(dims(rows, columns), type, order);
  };
  const auto a = stored(m, k, types.in, spec.flag("trans_a"));
  const auto c = stored(m, n, types.out, false);
  const Dims bias_dims = batch > 1 ? Dims{1, 1, n} : Dims{1, n};
  const auto bias = dense(bias_dims, types.out);

  Epilogue epilogue = epilogue_of(spec, c);
  StoredWeight weight{types.in, {}, false};
  if (stores_weight(spec)) {
    weight = stored_weight(spec, epilogue.attributes);
  } else {
    spec.require_plain_weight();
  }
  const dnnl::memory::desc any(dims(k, n), weight.type, dnnl::memory::format_tag::any);
  const dnnl::matmul::primitive_desc plan =
      epilogue.bias
          ? dnnl::matmul::primitive_desc(cpu_engine(), a, any, bias, c, epilogue.attributes)
          : dnnl::matmul::primitive_desc(cpu_engine(), a, any, c, epilogue.attributes);
  problem.add(DNNL_ARG_SRC, a, operands, "A");
  if (weight.nibbles) {
    problem.add_nibbles(DNNL_ARG_WEIGHTS, weight.type, plan.weights_desc(), operands, "B");
  } else {
    const auto b = stored(k, n, weight.type, spec.flag("trans_b"));
    problem.add_constant(DNNL_ARG_WEIGHTS, b, plan.weights_desc(), operands, "B");
  }
  for (const auto& p : weight.parameters) problem.add(p.argument, p.desc, operands, p.name);
  problem.add(DNNL_ARG_DST, c, operands, "C");
  if (epilogue.bias) problem.add(DNNL_ARG_BIAS, bias, operands, "bias");
  for (int argument : epilogue.addend_arguments) problem.add(argument, c, operands, "D");
  problem.set<dnnl::matmul>(plan);
}

}  // namespace tilewright::peers
