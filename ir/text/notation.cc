// Prints workloads in index notation.
#include <fmt/format.h>

#include "ir/buffer.h"
#include "ir/tensor_expr.h"

namespace tilewright {
namespace {

// Precedence of operators: an operand of lower precedence gets parentheses.
enum Level { kOr = 1, kAnd, kCompare, kSum, kProduct, kUnary, kAtom };

struct Text {
  std::string text;
  int level = kAtom;
};

std::string at_least(const Text& t, int level) {
  return t.level < level ? "(" + t.text + ")" : t.text;
}

Text notation(const Expr& e);

std::string list(const std::vector<Expr>& items) {
  std::vector<std::string> parts;
  for (const Expr& e : items) parts.push_back(notation(e).text);
  return fmt::format("{}", fmt::join(parts, ", "));
}

Text binary_notation(const BinaryNode& n) {
  Text a = notation(n.a), b = notation(n.b);
  auto infix = [&](std::string_view token, int level) -> Text {
    // The right operand of - and / must bind one level tighter than the left.
    return {fmt::format("{} {} {}", at_least(a, level), token, at_least(b, level + 1)), level};
  };
  switch (n.op) {
    case BinaryOp::Add:
    case BinaryOp::Sub: return infix(name_of(n.op), kSum);
    case BinaryOp::Mul:
    case BinaryOp::Div: return infix(name_of(n.op), kProduct);
    case BinaryOp::FloorDiv: return infix("//", kProduct);
    case BinaryOp::FloorMod: return infix("%", kProduct);
    case BinaryOp::Min:
    case BinaryOp::Max: return {fmt::format("{}({}, {})", name_of(n.op), a.text, b.text)};
    case BinaryOp::And: return infix("&&", kAnd);
    case BinaryOp::Or: return infix("||", kOr);
    default: return infix(name_of(n.op), kCompare);
  }
}

Text notation(const Expr& e) {
  if (auto v = as_int(e)) return {std::to_string(*v), *v < 0 ? kUnary : kAtom};
  if (auto* n = e.as<FloatImmNode>()) {
    // The shortest digits that tell values of this type apart.
    bool wide = n->type.elem == ElemType::f64;
    std::string digits =
        wide ? fmt::format("{}", n->value) : fmt::format("{}", static_cast<float>(n->value));
    return {digits, n->value < 0 ? kUnary : kAtom};
  }
  if (auto* n = e.as<VarNode>()) return {n->name};
  if (auto* n = e.as<CastNode>()) {
    return {fmt::format("{}({})", to_string(n->type), notation(n->value).text)};
  }
  if (auto* n = e.as<UnaryNode>()) {
    Text a = notation(n->a);
    bool token = n->op == UnaryOp::Neg || n->op == UnaryOp::Not;
    if (token) return {fmt::format("{}{}", name_of(n->op), at_least(a, kAtom)), kUnary};
    return {fmt::format("{}({})", name_of(n->op), a.text)};
  }
  if (auto* n = e.as<SelectNode>()) {
    return {fmt::format("select({})", list({n->cond, n->on_true, n->on_false}))};
  }
  if (auto* n = e.as<LoadNode>()) return {fmt::format("{}[{}]", n->buffer->name, list(n->indices))};
  if (auto* n = e.as<BinaryNode>()) return binary_notation(*n);
  return {"?"};  // vectors and calls do not occur in tensor expressions
}

std::string assignment(Reducer reducer) {
  switch (reducer) {
    case Reducer::Sum: return "+=";
    case Reducer::Max: return "max=";
    case Reducer::Min: return "min=";
    case Reducer::None: break;
  }
  return "=";
}

}  // namespace

std::string to_string(const Workload& workload) {
  std::string text;
  for (const Stage& s : workload.stages) {
    std::vector<Expr> axes(s.axes.begin(), s.axes.end());
    text += fmt::format("{}[{}] {} {}\n", s.output->name, list(axes), assignment(s.reducer),
                        notation(s.value).text);
  }
  return text;
}

}  // namespace tilewright
