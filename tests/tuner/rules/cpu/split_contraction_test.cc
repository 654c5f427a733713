// Long reductions in parts: where they are proposed, and that they are right.
#include <gtest/gtest.h>

#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

// The number of parts that the sketch proposes first for the reduction.
std::string first_parts(const char* spec) {
  return choice_of(cpu_trial(make_workload(parse_spec(spec)), Target::parse("avx512")), ".parts");
}

TEST(SplitContraction, IsProposedForFewResultsOfLongSums) {
  for (const char* spec : {"matmul:m=1,n=64,k=100000", "matmul:m=32,n=32,k=8192",
                           "matmul:m=1,n=64,k=65536,epilogue=[bias]"}) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(first_parts(spec), "4");
  }
}

TEST(SplitContraction, IsNotProposedWhereTheResultsGoAround) {
  for (const char* spec :
       {"matmul:m=64,n=256,k=8192", "matmul:m=1,n=4096,k=4096", "matmul:m=32,n=32,k=1000",
        "matmul:m=32,n=32,k=8191", "conv2d:n=1,h=14,w=14,ci=256,co=256,kernel=3,pad=1",
        "matmul:m=1,n=64,k=8192,w.dtype=u4,w.group=128", "matmul:m=1,n=64,k=1..8192"}) {
    SCOPED_TRACE(spec);
    EXPECT_EQ(first_parts(spec), "not asked");
  }
}

TEST(SplitContraction, MeansTheSame) {
  Workload w = make_workload(parse_spec("matmul:m=2,n=16,k=2048"));
  Target target = Target::parse("avx512");
  ASSERT_NE(choice_of(cpu_trial(w, target), "C.vk.parts"), "not asked");
  const Schedule s = cpu_schedule(w, target);
  NdArrays want, got;
  Program plain = lower(w);
  for (const Param& p : plain.params) {
    if (p.role == ParamRole::Output) continue;
    want[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), 7);
    got[p.buffer->name] = want[p.buffer->name];
  }
  interpret(plain, want);
  interpret(s.module(), got);
  const auto &a = want.at("C").data, &b = got.at("C").data;
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-2) << "element " << i;
}

class InParts : public testing::TestWithParam<const char*> {};

TEST_P(InParts, IsRight) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("native");
  SketchInput input{w, target, 2};
  int in_parts = 0;
  for (uint64_t seed = 0; seed < 30 && in_parts < 3; ++seed) {
    Trial trial = seed == 0 ? Trial::first() : Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], input, trial);
      SCOPED_TRACE(trial.config());
      ASSERT_NE(choice_of(trial, ".parts"), "not asked");
      if (choice_of(trial, ".parts") == "1") continue;
      expect_right(w, s, target);
      ++in_parts;
    } catch (const ScheduleError& e) {
      EXPECT_NE(seed, 0u) << e.what();
    } catch (const LoweringError& e) {
      EXPECT_NE(seed, 0u) << e.what();
    }
  }
  EXPECT_EQ(in_parts, 3);
}

INSTANTIATE_TEST_SUITE_P(All, InParts,
                         testing::Values("matmul:m=1,n=64,k=4096", "matmul:m=5,n=33,k=2048",
                                         "matmul:m=1,n=20,k=2000,epilogue=[bias,relu]",
                                         "matmul:m=4,n=16,k=2048,dtype=bf16",
                                         "matmul:m=4,n=32,k=2048,dtype=i8",
                                         "matmul:m=3,n=16,k=2048,batch=2"));

}  // namespace
}  // namespace tilewright
