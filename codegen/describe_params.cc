#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "codegen/codegen.h"
#include "ir/arith/simplify.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

std::optional<KernelExtent> formula_of(const Expr& e, const std::vector<DimVar>& dims);

// x + scale * y. Inside a quotient floor(X / c), adding a whole number y adds c * y to X.
std::optional<KernelExtent> sum_of(KernelExtent x, KernelExtent y, int64_t scale) {
  if (x.divisor != 1 && y.divisor != 1) return std::nullopt;
  if (y.divisor != 1) {
    if (scale != 1) return std::nullopt;
    std::swap(x, y);
  }
  x.factors.resize(std::max(x.factors.size(), y.factors.size()));
  for (size_t d = 0; d < y.factors.size(); ++d) x.factors[d] += x.divisor * scale * y.factors[d];
  while (!x.factors.empty() && x.factors.back() == 0) x.factors.pop_back();
  x.offset += x.divisor * scale * y.offset;
  return x;
}

std::optional<KernelExtent> formula_of(const BinaryNode& n, const std::vector<DimVar>& dims) {
  std::optional<KernelExtent> a = formula_of(n.a, dims), b = formula_of(n.b, dims);
  if (!a || !b) return std::nullopt;
  switch (n.op) {
    case BinaryOp::Add: return sum_of(*a, *b, 1);
    case BinaryOp::Sub: return sum_of(*a, *b, -1);
    case BinaryOp::Mul:
      if (!b->is_constant()) std::swap(a, b);
      if (!b->is_constant() || a->divisor != 1) return std::nullopt;
      return sum_of(KernelExtent(0), *a, b->offset);
    case BinaryOp::FloorDiv:
      if (!b->is_constant() || b->offset < 1) return std::nullopt;
      a->divisor *= b->offset;  // nested floor divisions combine
      return a;
    default: return std::nullopt;
  }
}

// The formula by which the caller of a kernel computes a size, or nothing.
std::optional<KernelExtent> formula_of(const Expr& e, const std::vector<DimVar>& dims) {
  if (auto value = as_int(e)) return KernelExtent(*value);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (e.same_as(dims[d].var)) return KernelExtent::dimension(d);
  }
  if (const auto* binary = e.as<BinaryNode>()) return formula_of(*binary, dims);
  return std::nullopt;
}

KernelExtent describe_extent(const Program& program, const Buffer& buffer, const Expr& written) {
  const Expr extent = simplify(written);
  if (auto formula = formula_of(extent, program.dims)) return *formula;
  throw LoweringError(fmt::format(
      "a size of '{}' is {}, which the caller of a kernel cannot compute: each size that is known "
      "only at launch has to be a sum of dynamic dimensions times constants, or its quotient by a "
      "constant",
      buffer->name, to_string(extent)));
}

}  // namespace

std::vector<KernelParam> describe_params(const Program& program) {
  std::vector<KernelParam> params;
  for (const Param& p : program.params) {
    KernelParam k{p.buffer->name, p.buffer->elem, {}, p.role};
    for (const Expr& extent : p.buffer->shape) {
      k.shape.push_back(describe_extent(program, p.buffer, extent));
    }
    params.push_back(std::move(k));
  }
  return params;
}

}  // namespace tilewright
