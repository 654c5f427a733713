#include <cmath>

#include "ir/ops/source.h"
#include "ir/ops/workload_builder.h"

namespace tilewright::ops {
namespace {

Expr constant(const Expr& like, double value) { return make_const(like.type(), value); }

Expr sigmoid(const Expr& x) { return constant(x, 1) / (constant(x, 1) + unary(UnaryOp::Exp, -x)); }

Expr gelu(const Expr& x) {
  Expr inner = unary(UnaryOp::Erf, x * constant(x, std::sqrt(0.5)));
  return x * constant(x, 0.5) * (constant(x, 1) + inner);
}

struct NamedFunction {
  const char* name;
  bool floats_only;
  Expr (*apply)(const Expr& x);
};

const std::vector<NamedFunction>& functions() {
  static const std::vector<NamedFunction> kTable = {
      {"relu", false, [](const Expr& x) { return max(x, constant(x, 0)); }},
      {"gelu", true, gelu},
      {"silu", true, [](const Expr& x) { return x / (constant(x, 1) + unary(UnaryOp::Exp, -x)); }},
      {"sigmoid", true, sigmoid},
      {"exp", true, [](const Expr& x) { return unary(UnaryOp::Exp, x); }},
      {"log", true, [](const Expr& x) { return unary(UnaryOp::Log, x); }},
      {"sqrt", true, [](const Expr& x) { return unary(UnaryOp::Sqrt, x); }},
      {"rsqrt", true, [](const Expr& x) { return unary(UnaryOp::Rsqrt, x); }},
      {"tanh", true, [](const Expr& x) { return unary(UnaryOp::Tanh, x); }},
      {"erf", true, [](const Expr& x) { return unary(UnaryOp::Erf, x); }},
      {"abs", false, [](const Expr& x) { return unary(UnaryOp::Abs, x); }},
      {"neg", false, [](const Expr& x) { return -x; }},
      {"copy", false, [](const Expr& x) { return x; }},
  };
  return kTable;
}

const NamedFunction* find(const std::string& name) {
  for (const NamedFunction& f : functions()) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

}  // namespace

Expr apply_function(const std::string& fn, const Expr& x) {
  const NamedFunction* f = find(fn);
  TW_ASSERT(f != nullptr, "no function " + fn);
  return f->apply(x);
}

const std::vector<std::string>& unary_functions() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const NamedFunction& f : functions()) names.emplace_back(f.name);
    return names;
  }();
  return kNames;
}

bool needs_float(const std::string& fn) {
  const NamedFunction* f = find(fn);
  return f != nullptr && f->floats_only;
}

}  // namespace tilewright::ops
