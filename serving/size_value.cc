#include "serving/size_value.h"

#include <algorithm>

#include "base/error.h"

namespace tilewright::serving {
namespace {

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) throw Error("a size of a GPU kernel divides by zero");
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

int64_t binary_value(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::FloorDiv: return floor_div(a, b);
    case BinaryOp::FloorMod: return a - floor_div(a, b) * b;
    case BinaryOp::Min: return std::min(a, b);
    case BinaryOp::Max: return std::max(a, b);
    case BinaryOp::And: return a != 0 && b != 0 ? 1 : 0;
    case BinaryOp::Or: return a != 0 || b != 0 ? 1 : 0;
    case BinaryOp::EQ: return a == b ? 1 : 0;
    case BinaryOp::NE: return a != b ? 1 : 0;
    case BinaryOp::LT: return a < b ? 1 : 0;
    case BinaryOp::LE: return a <= b ? 1 : 0;
    case BinaryOp::GT: return a > b ? 1 : 0;
    case BinaryOp::GE: return a >= b ? 1 : 0;
    case BinaryOp::Div: break;
  }
  throw Error("a size of a GPU kernel is no integer");
}

}  // namespace

int64_t size_value(const Expr& size, const std::vector<DimVar>& dims, const int64_t* values) {
  if (auto* number = size.as<IntImmNode>()) return number->value;
  if (size.as<VarNode>() != nullptr) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].var.same_as(size)) return values[d];
    }
    throw Error("a size of a GPU kernel depends on what is no dimension of it");
  }
  if (auto* cast = size.as<CastNode>()) return size_value(cast->value, dims, values);
  if (auto* binary = size.as<BinaryNode>()) {
    const int64_t a = size_value(binary->a, dims, values);
    return binary_value(binary->op, a, size_value(binary->b, dims, values));
  }
  if (auto* select = size.as<SelectNode>()) {
    const int64_t a = size_value(select->on_true, dims, values);
    const int64_t b = size_value(select->on_false, dims, values);
    return size_value(select->cond, dims, values) != 0 ? a : b;
  }
  throw Error("a size of a GPU kernel is more than integer arithmetic");
}

}  // namespace tilewright::serving
