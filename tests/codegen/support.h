// Shared parts of the tests of lowering.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "codegen/intrinsics/intrinsics.h"
#include "codegen/lowering.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "schedule/schedule.h"

namespace tilewright::test {

// The arrays of a program's parameters, inputs random; `flat` gives them one dimension.
inline NdArrays arrays_of(const Program& p, bool flat) {
  NdArrays arrays;
  uint64_t seed = 1;
  for (const Param& param : p.params) {
    std::vector<int64_t> shape = const_shape(param.buffer);
    ++seed;
    if (param.role == ParamRole::Output) continue;
    NdArray a = NdArray::random(param.buffer->elem, shape, seed);
    if (flat) a.shape = {static_cast<int64_t>(a.data.size())};
    arrays[param.buffer->name] = a;
  }
  return arrays;
}

inline void expect_same_meaning(const Program& program, const LoweringOptions& options = {}) {
  NdArrays before = arrays_of(program, false);
  interpret(program, before);
  Program lowered = lower_for_cpu(program, Target::parse("avx512"), options);
  NdArrays after = arrays_of(program, true);
  interpret(lowered, after);
  for (const Param& p : program.params) {
    if (p.role != ParamRole::Output) continue;
    const auto& want = before[p.buffer->name].data;
    const auto& got = after[p.buffer->name].data;
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(want[i], got[i], 1e-5) << "element " << i << " of\n" << to_string(lowered);
    }
  }
}

// A matmul in tiles of `rows` by a vector of 16, accumulated in registers; its outer loops are i_0,
// j_0.
inline Schedule matmul_in_tiles(const std::string& spec, int64_t rows) {
  Schedule s(lower(make_workload(parse_spec(spec))));
  Block c = s.block("C");
  std::vector<Loop> loops = s.loops(c);
  std::vector<Loop> i = s.split(loops[0], {-1, rows});
  std::vector<Loop> j = s.split(loops[1], {-1, 16});
  s.reorder({i[0], j[0], loops[2], i[1], j[1]});
  s.decompose_reduction(c, loops[2]);
  s.unroll(i[1]);
  s.vectorize(j[1]);
  return s;
}

// Three products of `row` one after the other into 2 accumulators, as a program. Its inner loops
// (jj, kk, … for iterators j, k, …) are marked as the row.
inline Schedule tensorized(const Intrinsic& row) {
  const TensorSemantics& semantics = row.semantics();
  std::vector<Buffer> operands = semantics.operands();
  std::vector<Var> iterators = semantics.iterators();
  std::string loops, iters, ends;
  for (size_t n = 0; n < iterators.size(); ++n) {
    const std::string& name = iterators[n].name();
    loops += fmt::format("for {0}{0} in 0..{1} {{ ", name, semantics.extents[n]);
    iters +=
        fmt::format(", v{0}{0}: {1} {2} = {0}{0}", name,
                    n < semantics.stage.axes.size() ? "spatial" : "reduce", semantics.extents[n]);
    ends += "}";
  }
  auto shape = [](const Buffer& b) {
    std::vector<std::string> list;
    for (int64_t extent : const_shape(b)) list.push_back(std::to_string(extent));
    return fmt::format("{}", fmt::join(list, ", "));
  };
  auto at = [&](const Buffer& b) {
    std::vector<Expr> indices(semantics.stage.axes.begin(), semantics.stage.axes.end());
    for_each_expr(semantics.stage.value, [&](const Expr& e) {
      auto* load = e.as<LoadNode>();
      if (load && load->buffer == b) indices = load->indices;
    });
    std::string text;
    for (const Expr& index : indices) text += fmt::format(", v{0}{0}", to_string(index));
    return text;
  };
  const Buffer &c = operands[0], &a = operands[1], &b = operands[2];
  Schedule s(parse_program(fmt::format(
      R"(program p(A: {0}[2, 3, {3}] input, B: {1}[3, {4}] weight, C: {2}[2, {5}] output) {{
        block root() {{
          for x in 0..2 {{ for y in 0..3 {{ {6}
            block C(vx: spatial 2 = x, vy: reduce 3 = y{7}) {{
              init {{ C[vx{10}] = 0{2} }}
              C[vx{10}] = C[vx{10}] + cast<{2}>(A[vx, vy{8}]) * cast<{2}>(B[vy{9}])
            }}
          {11}}}}}
        }}
      }})",
      to_string(a->elem), to_string(b->elem), to_string(c->elem), shape(a), shape(b), shape(c),
      loops, iters, at(a), at(b), at(c), ends)));
  s.decompose_reduction({"C"}, {"y"});
  s.unroll({"x"});
  s.tensorize({iterators[0].name() + iterators[0].name()}, std::string(row.name),
              std::string(row.computes));
  return s;
}

}  // namespace tilewright::test
