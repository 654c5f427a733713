// What the tests of lowering share.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/intrinsics.h"
#include "codegen/lowering.h"
#include "ir/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/parser.h"
#include "ir/printer.h"
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

// A matmul in tiles of `rows` by a vector of 16, summed in registers; its outer loops are i_0, j_0.
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

// Three products of `row` one after the other into 2 accumulators, as a program whose inner loops
// are marked as the row.
inline Schedule tensorized(const Intrinsic& row) {
  std::vector<int64_t> extents = row.semantics().extents;
  std::vector<Buffer> operands = row.semantics().operands();
  std::string text = fmt::format(
      R"(program p(A: {0}[2, 3, {4}] input, B: {1}[3, {3}, {4}] weight, C: {2}[2, {3}] output) {{
        block root() {{
          for i in 0..2 {{ for k in 0..3 {{ for jj in 0..{3} {{ for kk in 0..{4} {{
            block C(vi: spatial 2 = i, vk: reduce 3 = k, vj: spatial {3} = jj, vp: reduce {4} = kk) {{
              init {{ C[vi, vj] = 0{2} }}
              C[vi, vj] = C[vi, vj] + cast<{2}>(A[vi, vk, vp]) * cast<{2}>(B[vk, vj, vp])
            }}
          }}}}}}}}
        }}
      }})",
      to_string(operands[1]->elem), to_string(operands[2]->elem), to_string(operands[0]->elem),
      extents[0], extents[1]);
  Schedule s(parse_program(text));
  s.decompose_reduction({"C"}, {"k"});
  s.unroll({"i"});
  s.tensorize({"jj"}, std::string(row.name), std::string(row.computes));
  return s;
}

}  // namespace tilewright::test
