#include "runtime/check/spread_weights.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/compile/compile.h"
#include "tests/runtime/support.h"

namespace tilewright {
namespace {

// C[0] = the sum of B.packed and A, which tells that copies are equal; C[1] and C[2] tell where both stand.
KernelSource telling_kernel() {
  KernelSource source;
  source.code = test::kPrelude +
                "int32_t kernel(void* const* args, const int64_t* d, const tw_context* x) {\n"
                "  float *p = args[0], *a = args[1], *c = args[2], sum = 0;\n"
                "  for (int i = 0; i < 8; ++i) sum += p[i] + a[i];\n"
                "  c[0] = sum; c[1] = (float)((int64_t)p >> 6 & 0xffffff);\n"
                "  c[2] = (float)((int64_t)a >> 6 & 0xffffff);\n  return 0;\n}\n"
                "int32_t pack(void* const* args, const int64_t* d, const tw_context* x) {\n"
                "  float *w = args[0], *p = args[1];\n"
                "  for (int i = 0; i < 8; ++i) p[i] = w[7 - i];\n  return 0;\n}\n";
  source.description.main = {"kernel",
                             {test::param("B.packed", {8}, ParamRole::Weight),
                              test::param("A", {8}), test::param("C", {3}, ParamRole::Output)},
                             0,
                             0};
  source.description.packs = {
      {"pack", {test::param("B", {8}), test::param("B.packed", {8}, ParamRole::Output)}, 0, 0}};
  return source;
}

struct Told {
  size_t copies = 0;
  std::set<float> sums, packed, plain;  // seen in as many runs as there are copies
};

Told told_of(const SpreadOperands& spread) {
  const KernelSource source = telling_kernel();
  const Kernel kernel(compile(source).object, source.description);
  OperandSet operands({{"B", ElemType::f32, {8}, ParamRole::Weight, {}},
                       {"A", ElemType::f32, {8}, ParamRole::Input, {}},
                       {"C", ElemType::f32, {3}, ParamRole::Output, {}}},
                      5);
  ThreadPool pool(1);
  const BoundKernel bound(kernel, operands, {}, pool);
  SpreadWeights runs(bound, spread);
  Told told;
  told.copies = runs.copies();
  for (size_t i = 0; i < 2 * runs.copies(); ++i) {
    runs.run();
    const auto* c = static_cast<const float*>(operands.output().data());
    told.sums.insert(c[0]);
    told.packed.insert(c[1]);
    told.plain.insert(c[2]);
  }
  return told;
}

TEST(SpreadWeights, RunsReadCopiesInTurn) {
  const Told told = told_of({.names = {"B"}, .bytes = 10 * 32});
  EXPECT_EQ(told.copies, 10u);
  EXPECT_EQ(told.packed.size(), 10u) << "the packed weight of B";
  EXPECT_EQ(told.plain.size(), 1u) << "A is no constant";
  EXPECT_EQ(told.sums.size(), 1u);
}

TEST(SpreadWeights, ConstantsThatAreNotPackedAreSpreadToo) {
  const Told told = told_of({.names = {"A", "B"}, .bytes = 10 * 32});
  EXPECT_EQ(told.copies, 5u);
  EXPECT_EQ(told.packed.size(), 5u);
  EXPECT_EQ(told.plain.size(), 5u);
}

// A model whose only weight this is finds it where the run before left it.
TEST(SpreadWeights, OneWeightAloneStaysInPlace) {
  EXPECT_EQ(told_of({.names = {"B"}, .bytes = 32}).copies, 1u);
  EXPECT_EQ(told_of({.names = {}, .bytes = 1 << 20}).copies, 1u);
  EXPECT_EQ(told_of({}).copies, 1u);
  EXPECT_EQ(told_of({.names = {"B"}, .bytes = 1 << 30}).copies, 256u) << "the most";
}

}  // namespace
}  // namespace tilewright
