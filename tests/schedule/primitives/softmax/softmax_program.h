// A softmax between two products, for tests of primitives that change its loops.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>

#include "ir/interpreter/interpreter.h"
#include "ir/verify.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {

// The terms of the program: `score` for X[i, j], `weight` for exp(score - M[i]), `result`, and
// parameters after X. {0} stands for i, {1} for j and {2} for the score.
struct SoftmaxTerms {
  std::string score = "X[{0}, {1}]";
  std::string weight = "exp({2} - M[{0}])";
  std::string result = "O[yi, ye] / L[yi]";
  std::string params = "";
};

// Y = softmax(X) V over 5 rows, 12 keys and 3 columns.
inline std::string softmax_program(const SoftmaxTerms& terms = {}) {
  auto score_at = [&](const char* i, const char* j) {
    return fmt::format(fmt::runtime(terms.score), i, j);
  };
  return fmt::format(
      R"(
program p(X: f32[5, 12] input, {}V: f32[12, 3] input, Y: f32[5, 3] output) {{
  block root() {{
    alloc M: f32[5] global
    alloc P: f32[5, 12] global
    alloc L: f32[5] global
    alloc O: f32[5, 3] global
    for i in 0..5 {{ for j in 0..12 {{
      block M(mi: spatial 5 = i, mj: reduce 12 = j) {{
        init {{ M[mi] = -inf<f32> }}
        M[mi] = max(M[mi], {})
      }}
    }}}}
    for i_1 in 0..5 {{ for j_1 in 0..12 {{
      block P(pi: spatial 5 = i_1, pj: spatial 12 = j_1) {{ P[pi, pj] = {} }}
    }}}}
    for i_2 in 0..5 {{ for j_2 in 0..12 {{
      block L(li: spatial 5 = i_2, lj: reduce 12 = j_2) {{
        init {{ L[li] = 0f32 }}
        L[li] = L[li] + P[li, lj]
      }}
    }}}}
    for i_3 in 0..5 {{ for e in 0..3 {{ for j_3 in 0..12 {{
      block O(oi: spatial 5 = i_3, oe: spatial 3 = e, oj: reduce 12 = j_3) {{
        init {{ O[oi, oe] = 0f32 }}
        O[oi, oe] = O[oi, oe] + P[oi, oj] * V[oj, oe]
      }}
    }}}}}}
    for i_4 in 0..5 {{ for e_4 in 0..3 {{
      block Y(yi: spatial 5 = i_4, ye: spatial 3 = e_4) {{ Y[yi, ye] = {} }}
    }}}}
  }}
}})",
      terms.params, score_at("mi", "mj"),
      fmt::format(fmt::runtime(terms.weight), "pi", "pj", score_at("pi", "pj")), terms.result);
}

// Checks that the program is legal, replays, and is close to the original on random operands. X is
// `scale` times [-1, 1), and N is the length.
inline void check_softmax(const RewriteCase& c, double scale = 1, int length = 0,
                          const std::map<std::string, int64_t>& dims = {}) {
  verify_or_throw(c.s.program(), "check_softmax");
  EXPECT_TRUE(replays(c.before, c.s));
  NdArrays want;
  uint64_t seed = 5;
  for (const Param& p : c.before.params) {
    if (p.role == ParamRole::Output) continue;
    std::vector<int64_t> shape;
    for (const Expr& e : p.buffer->shape) {
      shape.push_back(as_int(e) ? *as_int(e) : dims.at(e.as<VarNode>()->name));
    }
    NdArray& array = want[p.buffer->name] = NdArray::random(p.buffer->elem, shape, seed++);
    if (p.buffer->name == "N") array.data = {static_cast<double>(length)};
    if (p.buffer->name == "X") {
      for (double& x : array.data) x = round_to(ElemType::f32, x * scale);
    }
  }
  NdArrays got = want;
  interpret(c.before, want, dims);
  interpret(c.s.module(), got, dims);
  const std::string& out = c.before.params.back().buffer->name;
  for (size_t i = 0; i < want.at(out).data.size(); ++i) {
    ASSERT_NEAR(got.at(out).data[i], want.at(out).data[i], 2e-6) << "element " << i;
  }
}

}  // namespace tilewright::test
