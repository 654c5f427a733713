#include "tests/ir/arith/arith_support.h"

#include <algorithm>
#include <stdexcept>

namespace tilewright::test {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) throw std::domain_error("division by zero");
  int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t value_of_binary(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::FloorDiv: return floor_quotient(a, b);
    case BinaryOp::FloorMod: return a - floor_quotient(a, b) * b;
    case BinaryOp::Min: return std::min(a, b);
    case BinaryOp::Max: return std::max(a, b);
    case BinaryOp::And: return a != 0 && b != 0;
    case BinaryOp::Or: return a != 0 || b != 0;
    case BinaryOp::EQ: return a == b;
    case BinaryOp::NE: return a != b;
    case BinaryOp::LT: return a < b;
    case BinaryOp::LE: return a <= b;
    case BinaryOp::GT: return a > b;
    case BinaryOp::GE: return a >= b;
    case BinaryOp::Div: break;
  }
  throw std::invalid_argument("a float division");
}

}  // namespace

int64_t value_of(const Expr& e, const Assignment& values, int lane) {
  if (auto* n = e.as<IntImmNode>()) return n->value;
  if (e.as<VarNode>() != nullptr) return values.at(e.get());
  if (auto* n = e.as<RampNode>()) {
    return value_of(n->base, values) + lane * value_of(n->stride, values);
  }
  if (auto* n = e.as<BroadcastNode>()) return value_of(n->value, values);
  if (auto* n = e.as<UnaryNode>()) {
    int64_t a = value_of(n->a, values, lane);
    if (n->op == UnaryOp::Neg) return -a;
    if (n->op == UnaryOp::Not) return a == 0;
    if (n->op == UnaryOp::Abs) return a < 0 ? -a : a;
  }
  if (auto* n = e.as<SelectNode>()) {
    bool taken = value_of(n->cond, values, lane) != 0;
    return value_of(taken ? n->on_true : n->on_false, values, lane);
  }
  if (auto* n = e.as<BinaryNode>()) {
    return value_of_binary(n->op, value_of(n->a, values, lane), value_of(n->b, values, lane));
  }
  throw std::invalid_argument("an expression that has no value here");
}

ExprGenerator::ExprGenerator(uint64_t seed) : random_(seed) {
  const char* names[] = {"i", "j", "k", "n"};
  const int64_t extents[] = {1, 2, 3, 4, 7, 8, 16};
  for (const char* name : names) {
    bool offset = number(0, 3) == 0;
    vars_.push_back({Var(name), offset ? number(-9, 9) : 0, extents[number(0, 6)]});
  }
}

int64_t ExprGenerator::number(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
}

Assignment ExprGenerator::assignment() {
  Assignment result;
  for (const RangedVar& v : vars_) result[v.var.get()] = v.min + number(0, v.extent - 1);
  return result;
}

Expr ExprGenerator::leaf() {
  return number(0, 4) == 0 ? Expr(number(-20, 40))
                           : Expr(vars_[static_cast<size_t>(number(0, 3))].var);
}

Expr ExprGenerator::index(int depth) {
  const int64_t factors[] = {-4, -1, 2, 3, 4, 6, 8, 12, 16};
  const int64_t divisors[] = {1, 2, 3, 4, 6, 8, 16, -3, -4};
  if (depth == 0) return leaf();
  auto pick = [&](const int64_t* table) { return Expr(table[number(0, 8)]); };
  switch (number(0, 12)) {
    case 0:
    case 1:
    case 2: return index(depth - 1) + index(depth - 1);
    case 3: return index(depth - 1) - index(depth - 1);
    case 4:
    case 5: return index(depth - 1) * pick(factors);
    case 6: return floordiv(index(depth - 1), pick(divisors));
    case 7: return floormod(index(depth - 1), pick(divisors));
    case 8: return min(index(depth - 1), index(depth - 1));
    case 9: return max(index(depth - 1), index(depth - 1));
    case 10: return select(condition(depth - 1), index(depth - 1), index(depth - 1));
    case 11: {  // a floor and its remainder together, as in fused loops
      Expr x = index(depth - 1), c = Expr(number(2, 8));
      return floordiv(x, c) * c * Expr(number(1, 2)) + floormod(x, c);
    }
    default: return depth > 1 ? index(depth - 2) * index(depth - 2) : leaf();
  }
}

Expr ExprGenerator::condition(int depth) {
  if (depth > 1) {
    switch (number(0, 5)) {
      case 0: return condition(depth - 1) && condition(depth - 1);
      case 1: return condition(depth - 1) || condition(depth - 1);
      case 2: return !condition(depth - 1);
      default: break;
    }
  }
  int below = depth > 0 ? depth - 1 : 0;
  Expr a = index(below), b = number(0, 1) == 0 ? Expr(number(-10, 60)) : index(below);
  switch (number(0, 5)) {
    case 0: return a < b;
    case 1: return a <= b;
    case 2: return a > b;
    case 3: return a >= b;
    case 4: return eq(a, b);
    default: return ne(a, b);
  }
}

Expr ExprGenerator::index_vector(int depth, int lanes) {
  if (depth == 0) {
    return number(0, 1) == 0 ? broadcast(index(1), lanes)
                             : ramp(index(1), Expr(number(-2, 4)), lanes);
  }
  switch (number(0, 6)) {
    case 0:
    case 1: return index_vector(depth - 1, lanes) + index_vector(depth - 1, lanes);
    case 2: return index_vector(depth - 1, lanes) - index_vector(depth - 1, lanes);
    case 3: return index_vector(depth - 1, lanes) * broadcast(Expr(number(-3, 8)), lanes);
    case 4: return floordiv(index_vector(depth - 1, lanes), broadcast(Expr(number(2, 9)), lanes));
    case 5: return floormod(index_vector(depth - 1, lanes), broadcast(Expr(number(2, 9)), lanes));
    default: return min(index_vector(depth - 1, lanes), index_vector(depth - 1, lanes));
  }
}

}  // namespace tilewright::test
