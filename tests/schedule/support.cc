#include "tests/schedule/support.h"

#include <cmath>

#include <fmt/core.h>

#include "ir/arith/simplify.h"
#include "ir/compare.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "ir/visitor.h"

namespace tilewright::test {

Program matmul(int64_t m, int64_t n, int64_t k) {
  return parse_program(fmt::format(R"(
program matmul(A: f32[{m}, {k}] input, B: f32[{k}, {n}] weight, C: f32[{m}, {n}] output) {{
  block root() {{
    for i in 0..{m} {{
      for j in 0..{n} {{
        for k in 0..{k} {{
          block C(vi: spatial {m} = i, vj: spatial {n} = j, vk: reduce {k} = k) {{
            init {{
              C[vi, vj] = 0.0f32
            }}
            C[vi, vj] = (C[vi, vj] + (A[vi, vk] * B[vk, vj]))
          }}
        }}
      }}
    }}
  }}
}}
)",
                                   fmt::arg("m", m), fmt::arg("n", n), fmt::arg("k", k)));
}

Program chain(int64_t m, int64_t n) {
  return parse_program(fmt::format(R"(
program chain(A: f32[{m}, {n}] input, C: f32[{m}, {n}] output) {{
  block root() {{
    alloc T: f32[{m}, {n}] global
    for i in 0..{m} {{
      for j in 0..{n} {{
        block T(vi: spatial {m} = i, vj: spatial {n} = j) {{
          T[vi, vj] = (A[vi, vj] * 2.0f32)
        }}
      }}
    }}
    for i_1 in 0..{m} {{
      for j_1 in 0..{n} {{
        block C(vi: spatial {m} = i_1, vj: spatial {n} = j_1) {{
          C[vi, vj] = (T[vi, vj] + 1.0f32)
        }}
      }}
    }}
  }}
}}
)",
                                   fmt::arg("m", m), fmt::arg("n", n)));
}

Program row_reduce(const std::string& reducer, int64_t m, int64_t k) {
  std::string from = reducer == "sum" ? "0.0f32" : reducer == "max" ? "-inf<f32>" : "inf<f32>";
  std::string update =
      reducer == "sum" ? "(S[vi] + A[vi, vk])" : fmt::format("{}(S[vi], A[vi, vk])", reducer);
  return parse_program(fmt::format(R"(
program row_reduce(A: f32[{m}, {k}] input, S: f32[{m}] output) {{
  block root() {{
    for i in 0..{m} {{
      for k in 0..{k} {{
        block S(vi: spatial {m} = i, vk: reduce {k} = k) {{
          init {{
            S[vi] = {from}
          }}
          S[vi] = {update}
        }}
      }}
    }}
  }}
}}
)",
                                   fmt::arg("m", m), fmt::arg("k", k), fmt::arg("from", from),
                                   fmt::arg("update", update)));
}

Program parse(const std::string& text) {
  if (text.find("program") != std::string::npos) return parse_program(text);
  return parse_program("program p(A: f32[64] input, C: f32[64] output) {\n" + text + "}\n");
}

std::string before_and_after(const Program& before, const Schedule& after) {
  return fmt::format("{}\n{}\n{}", to_string(before), after.trace().str(),
                     to_string(after.module()));
}

::testing::AssertionResult replays(const Program& before, const Schedule& after) {
  Schedule again(before);
  for (const Step& step : Trace::from_json(after.trace().to_json()).steps) again.apply(step);
  std::string first = to_string(after.module()), second = to_string(again.module());
  if (first != second) {
    return ::testing::AssertionFailure() << "replayed as\n" << second << "\nnot as\n" << first;
  }
  if (again.trace().to_json() != after.trace().to_json()) {
    return ::testing::AssertionFailure() << "the replay's trace is\n" << again.trace().str();
  }
  return ::testing::AssertionSuccess();
}

namespace {

// Small integers, so that f32 sums are exact in any order.
NdArray small_integers(const Buffer& buffer, const std::map<std::string, int64_t>& dims,
                       uint64_t seed) {
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (const Expr& extent : buffer->shape) {
    VarMap values;
    for_each_expr(extent, [&](const Expr& e) {
      if (auto* var = e.as<VarNode>()) values[var] = Expr(dims.at(var->name));
    });
    shape.push_back(*as_int(simplify(substitute(extent, values))));
    count *= shape.back();
  }
  NdArray array = NdArray::zeros(buffer->elem, shape);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    auto value = static_cast<double>((seed >> 33) % 15);
    array.data[static_cast<size_t>(i)] = is_float(buffer->elem) ? value - 7 : value;
  }
  return array;
}

}  // namespace

::testing::AssertionResult same_meaning(const Program& before, const Module& after,
                                        const std::map<std::string, int64_t>& dims) {
  for (const Program* program : {&before, &after.main}) {
    std::vector<Violation> violations = verify(*program);
    if (violations.empty()) continue;
    PrintOptions options;
    for (const Violation& v : violations) options.mark.push_back(v.where);
    return ::testing::AssertionFailure() << violations[0].message << "\n"
                                         << to_string(*program, options);
  }
  NdArrays expected, actual;
  uint64_t seed = 1;
  for (const Param& param : before.params) {
    if (param.role == ParamRole::Output) continue;
    expected[param.buffer->name] = small_integers(param.buffer, dims, seed++);
  }
  actual = expected;
  interpret(before, expected, dims);
  interpret(after, actual, dims);
  for (const Param& param : before.params) {
    if (param.role != ParamRole::Output) continue;
    const NdArray &want = expected.at(param.buffer->name), &got = actual.at(param.buffer->name);
    for (size_t i = 0; i < want.data.size(); ++i) {
      if (want.data[i] == got.data[i]) continue;
      return ::testing::AssertionFailure() << param.buffer->name << "[flat " << i << "] is "
                                           << got.data[i] << ", not " << want.data[i] << ":\n"
                                           << to_string(after);
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace tilewright::test
