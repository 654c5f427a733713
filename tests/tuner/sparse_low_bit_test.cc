// Few-bit weights with an element-wise pattern: dot products for which each lane looks up its
// operands, and the cases in which zeros are read instead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "tests/tuner/choices.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

constexpr const char* kEach = "avx512.vdpbf16ps_each";

// The choice of the knob whose name ends with `ending`.
class ElementWisePattern : public testing::TestWithParam<const char*> {};

TEST_P(ElementWisePattern, IsLookedUpByEachLane) {
  Target target = Target::parse("native");
  if (!has_row(target, kEach)) GTEST_SKIP() << "no vdpbf16ps";
  Workload w = make_workload(parse_spec(GetParam()));
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
  EXPECT_EQ(choice_of(first, ".B.sparse"), "compressed");
  EXPECT_EQ(choice_of(first, ".intrinsic"), kEach);
  std::string code = generate_c(s.module(), target).code;
  EXPECT_NE(code.find("tw_four_neighbours_"), std::string::npos) << code;
  EXPECT_NE(code.find("tw_avx512_vdpbf16ps_each_of_value("), std::string::npos) << code;
  expect_right(w, s, target);
}

TEST_P(ElementWisePattern, IsRightInRandomSchedules) {
  Target target = Target::parse("native");
  Workload w = make_workload(parse_spec(GetParam()));
  int checked = 0;
  for (uint64_t seed = 1; seed < 60 && checked < 5; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, trial);
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
      ++checked;
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_EQ(checked, 5);
}

INSTANTIATE_TEST_SUITE_P(
    Codes, ElementWisePattern,
    testing::Values(
        "matmul:m=1,n=96,k=256,dtype=bf16,out=f32,w.dtype=i4,w.group=128,w.scale=f16,w.sparse=2:4",
        "matmul:m=2,n=48,k=128,dtype=bf16,w.dtype=i4,w.group=32,w.sparse=2:4,epilogue=[bias,relu]",
        "matmul:m=1,n=32,k=256,dtype=bf16,out=f32,trans_b=true,w.dtype=i2,w.group=64,w.sparse=2:4",
        "matmul:m=1,n=64,k=96,dtype=bf16,out=f32,w.dtype=f4e2m1,w.group=16,w.scale=e8m0,"
        "w.sparse=2:4",
        "matmul:m=1,n=64,k=192,dtype=bf16,out=f32,w.dtype=u4,w.sparse=2:4"));

// Dot products take all elements, zeros included, if the codes' words, the columns or the groups do
// not fit. The same if zero points would need sums of looked-up elements.
TEST(ElementWisePatterns, ThatLanesCannotLookUpAreReadWithTheirZeros) {
  Target target = Target::parse("native");
  for (const char* form : {"m=1,n=48,k=64,w.dtype=u4,w.group=32,w.zero=u4,w.sparse=2:4",
                           "m=1,n=40,k=64,w.dtype=i4,w.group=32,w.sparse=2:4",
                           "m=1,n=48,k=72,w.dtype=i4,w.group=24,w.sparse=2:4",
                           "m=1,n=48,k=64,w.dtype=i4,w.group=32,w.sparse=1:4",
                           "m=1,n=48,k=64,w.dtype=nf4,w.group=64,w.sparse=2:4",
                           "m=3,n=48,k=64,w.dtype=i4,w.group=32,w.sparse=2:4"}) {
    SCOPED_TRACE(form);
    Workload w = make_workload(parse_spec(std::string("matmul:dtype=bf16,out=f32,") + form));
    Trial first = Trial::first();
    Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
    EXPECT_EQ(choice_of(first, ".B.sparse"), "zeros");
    expect_right(w, s, target);
  }
}

// Elements at every position in words of one and of two bytes, compared with elements read one by
// one.
TEST(FourNeighbours, AreLookedUpAtStoredPlaces) {
  Target target = Target::parse("native");
  if (!has_row(target, kEach)) GTEST_SKIP() << "no vdpbf16ps";
  for (int per_word : {4, 8}) {
    for (int place = 0; place < per_word; ++place) {
      Program p = parse_program(fmt::format(
          "program look(X: bf16[16] input, P: u2[{0}] input, Y: bf16[32] output) {{ block root() "
          "{{ for i in 0..32 vectorized {{ block Y(v: spatial 32 = i) {{ Y[v] = X[8 + "
          "cast<index>(P[v * {1} + {2}])] }} }} }} }}",
          32 * per_word, per_word, place));
      KernelSource source = generate_c({p, {}}, target);
      EXPECT_NE(source.code.find(fmt::format("tw_four_neighbours_{}_", 2 * per_word)),
                std::string::npos)
          << source.code;
      Kernel kernel(test_object(source), source.description);
      HostArray x("X", ElemType::bf16, {16}), places("P", ElemType::u2, {32 * per_word}),
          y("Y", ElemType::bf16, {32});
      for (int i = 0; i < 16; ++i) x.set(i, i);
      for (int i = 0; i < 32 * per_word; ++i) places.set(i, i * 7 / 3 % 4);
      std::vector<void*> args = {x.data(), places.data(), y.data()};
      kernel.launch(args.data(), nullptr, serial_context());
      for (int i = 0; i < 32; ++i) {
        EXPECT_EQ(y.get(i), 8 + places.get(i * per_word + place)) << "lane " << i;
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
