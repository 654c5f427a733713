// The tail of a dynamic axis: its meaning, and its lowering.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

// Compares both programs' outputs at one size of the dynamic dimension.
void expect_same_at(const Program& program, int64_t size, const LoweringOptions& options) {
  const std::map<std::string, int64_t> dims = {{program.dims.at(0).var.name(), size}};
  VarMap sizes{{program.dims[0].var.get(), Expr(size)}};
  NdArrays want, got;
  uint64_t seed = 1;
  for (const Param& p : program.params) {
    std::vector<int64_t> shape;
    for (const Expr& e : p.buffer->shape) shape.push_back(*as_int(simplify(substitute(e, sizes))));
    if (p.role == ParamRole::Output) continue;
    NdArray array = NdArray::random(p.buffer->elem, shape, ++seed);
    want[p.buffer->name] = array;
    array.shape = {static_cast<int64_t>(array.data.size())};
    got[p.buffer->name] = array;
  }
  interpret(program, want, dims);
  Program lowered = lower_for_cpu(program, Target::parse("avx512"), options);
  interpret(lowered, got, dims);
  for (const Param& p : program.params) {
    if (p.role != ParamRole::Output) continue;
    const auto &a = want[p.buffer->name].data, &b = got[p.buffer->name].data;
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 1e-5) << "element " << i << " at " << size << " of\n"
                                    << to_string(lowered);
    }
  }
}

TEST(DynamicTails, MeanTheSameWithAndWithoutThePass) {
  Program tiles = test::matmul_in_tiles("matmul:m=1..20,n=35,k=7", 6).program();
  LoweringOptions without;
  without.without = {"peel_dynamic_tails"};
  for (int64_t m : {1, 2, 5, 6, 7, 11, 12, 13, 18, 20}) {
    expect_same_at(tiles, m, {});
    expect_same_at(tiles, m, without);
  }
}

// A vectorized reduction over a dynamic axis: its whole vectors run in a loop without a mask.
TEST(DynamicTails, CutReductionsWhereTheirTailBegins) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=2,n=3,k=1..40"))));
  std::vector<Loop> k = s.split(s.loops(s.block("C"))[2], {-1, 8});
  for (int64_t size : {1, 7, 8, 9, 16, 39, 40}) expect_same_at(s.program(), size, {});
  std::string text = to_string(lower_for_cpu(s.program(), Target::parse("avx512")));
  EXPECT_NE(text.find("_whole"), std::string::npos) << text;
}

// Six rows: the whole tile and five tails, each with its rows in registers. The last tail is the
// remaining case.
// rest.
TEST(DynamicTails, HaveCodeForEachNumberOfRows) {
  Program tiles = test::matmul_in_tiles("matmul:m=1..20,n=32,k=7", 6).program();
  std::string text = to_string(lower_for_cpu(tiles, Target::parse("avx512")));
  for (int rows = 1; rows <= 4; ++rows) {
    std::string branch = fmt::format("_left == {}", rows);
    EXPECT_NE(text.find(branch), std::string::npos) << branch << " is not in\n" << text;
  }
  size_t registers = 0;
  const std::string allocated = "allocate C_acc";
  for (size_t at = text.find(allocated); at != std::string::npos;
       at = text.find(allocated, at + 1)) {
    ++registers;
  }
  EXPECT_EQ(registers, 6u) << text;
}

// A tile of too many rows for that has one code for all tails.
TEST(DynamicTails, OfManyRowsAskForEach) {
  Program tiles = test::matmul_in_tiles("matmul:m=1..90,n=32,k=7", 40).program();
  std::string text = to_string(lower_for_cpu(tiles, Target::parse("avx512")));
  EXPECT_EQ(text.find("_left == "), std::string::npos) << text;
  EXPECT_NE(text.find("_left < 40"), std::string::npos) << text;
  for (int64_t m : {1, 39, 40, 41, 90}) expect_same_at(tiles, m, {});
}

// Buffers between stages are allocated for the largest size.
TEST(DynamicTails, WorkspaceHasRoomForTheLargestSize) {
  Program softmax = lower(make_workload(parse_spec("softmax:m=1..24,n=1..10")));
  KernelSource source = generate_c({softmax, {}}, Target::parse("avx512"));
  EXPECT_NE(source.code.find("[24]"), std::string::npos) << source.code;
}

}  // namespace
}  // namespace tilewright
