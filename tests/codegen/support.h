// What the tests of lowering share.
#pragma once

#include <gtest/gtest.h>

#include "codegen/lowering.h"
#include "ir/interpreter.h"
#include "ir/printer.h"

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

}  // namespace tilewright::test
