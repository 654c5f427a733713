#include "codegen/cuda/instructions/cuda_shuffle.h"

#include <fmt/format.h>

#include "codegen/cuda_lowering.h"
#include "codegen/lowering.h"

namespace tilewright {

ShuffleNest match_shuffle(const ForNode& loop) {
  const StoreNode& n = *loop.body.as<StoreNode>();
  auto* step = n.value.as<BinaryNode>();
  auto is_result = [&](const Expr& e) {
    auto* load = e.as<LoadNode>();
    return load && load->buffer == n.buffer;
  };
  bool exchanged = step && is_result(step->a) != is_result(step->b) && step->type.is_scalar() &&
                   (bits_of(step->type.elem) == 32 || bits_of(step->type.elem) == 64);
  if (!exchanged) {
    throw LoweringError(
        fmt::format("the reduction over lanes into '{}' must be one of elements of "
                    "32 or 64 bits",
                    n.buffer->name));
  }
  const Expr& term = is_result(step->a) ? step->b : step->a;
  return {n.buffer, n.indices[0], step->op, term, *as_int(loop.extent)};
}

std::vector<std::string> shuffle_lines(const ShuffleNest& nest, CudaExpr& expr) {
  const Type of = nest.term.type();
  Var mine("mine", of), other("other", of);
  const std::string type = cuda_type(of.elem), value = expr.print(nest.term);
  const std::string a = expr.bind(mine, "mine"), b = expr.bind(other, "other");
  const std::string first =
      is_private(nest.buffer) ? "" : fmt::format("if (threadIdx.x % {} == 0) ", nest.lanes);
  return {fmt::format("{} {} = {};", type, a, value),
          "#pragma unroll",
          fmt::format("for (int distance = {}; distance > 0; distance /= 2) {{", nest.lanes / 2),
          fmt::format("  const {} {} = __shfl_xor_sync(0xffffffffu, {}, distance);", type, b, a),
          fmt::format("  {} = {};", a, expr.print_bare(binary(nest.op, mine, other))),
          "}",
          fmt::format("{}{} = {};", first, expr.element(nest.buffer, nest.index), a)};
}

}  // namespace tilewright
