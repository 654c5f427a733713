// Matrix products, with weights in the layout that oneDNN chooses, or that it is fastest with.
#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>

#include "bench/peers/onednn/primitives.h"

namespace tilewright::peers {
namespace {

// The least of three runs; none of reference code, which may take seconds.
double seconds_of(PrimitiveProblem& problem) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3 && !problem.is_reference(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    problem.run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken.count());
  }
  return least;
}

void make_product(const PeerSpec& spec, const Operands& operands, const WeightForm& form,
                  PrimitiveProblem& problem) {
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
    weight = stored_weight(spec, form, epilogue.attributes);
  } else {
    spec.require_plain_weight();
  }
  const auto layout = batch > 1 ? dnnl::memory::format_tag::any : form.layout;
  const dnnl::memory::desc wanted(dims(k, n), weight.type, layout);
  const dnnl::matmul::primitive_desc plan =
      epilogue.bias
          ? dnnl::matmul::primitive_desc(cpu_engine(), a, wanted, bias, c, epilogue.attributes)
          : dnnl::matmul::primitive_desc(cpu_engine(), a, wanted, c, epilogue.attributes);
  problem.clear();
  problem.add(DNNL_ARG_SRC, a, operands, "A");
  if (weight.nibbles) {
    problem.add_nibbles(DNNL_ARG_WEIGHTS, weight.type, plan.weights_desc(), operands, "B");
  } else {
    const auto b = stored(k, n, weight.type, spec.flag("trans_b"));
    problem.add_constant(DNNL_ARG_WEIGHTS, b, plan.weights_desc(), operands, "B");
  }
  for (const auto& p : weight.parameters) {
    if (p.given == p.wanted) {
      problem.add(p.argument, p.given, operands, p.name);
    } else {
      problem.add_constant(p.argument, p.given, p.wanted, operands, p.name);
    }
  }
  problem.add(DNNL_ARG_DST, c, operands, "C");
  if (epilogue.bias) problem.add(DNNL_ARG_BIAS, bias, operands, "bias");
  for (int argument : epilogue.addend_arguments) problem.add(argument, c, operands, "D");
  problem.set<dnnl::matmul>(plan);
}

}  // namespace

void make_matmul(const PeerSpec& spec, const Operands& operands, PrimitiveProblem& problem) {
  if (spec.has("a.dtype")) throw Unsupported("no rows quantized to " + spec.text("a.dtype", ""));
  if (!stores_weight(spec)) return make_product(spec, operands, {}, problem);
  std::optional<WeightForm> best;
  double least = 0;
  for (const WeightForm& form : weight_forms(spec)) {
    try {
      make_product(spec, operands, form, problem);
    } catch (const dnnl::error&) {
      continue;
    }
    const double seconds = seconds_of(problem);
    if (!best || seconds < least) {
      best = form;
      least = seconds;
    }
  }
  if (!best) throw Unsupported("no such weight beside " + spec.text("dtype", "f32") + " here");
  make_product(spec, operands, *best, problem);
  if (best->scale != spec.text("w.scale", "f32")) problem.remark("scales as " + best->scale);
}

}  // namespace tilewright::peers
