// Activations of fewer than 8 bits on CPUs: as written, tuned, and in random schedules.
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

class FewBitsRows : public testing::TestWithParam<const char*> {};

TEST_P(FewBitsRows, AreRightAsWrittenAndTuned) {
  Workload w = make_workload(parse_spec(GetParam()));
  for (const char* name : {"native", "avx2", "generic"}) {
    Target target = Target::parse(name);
    if (!target.missing_features().empty()) continue;
    SCOPED_TRACE(name);
    SketchInput input{w, target, 2};
    Trial none = Trial::first(), first = Trial::first();
    expect_right(w, apply_sketch(default_sketch(), input, none), target);
    expect_right(w, apply_sketch(cpu_sketches()[0], input, first), target);
  }
}

TEST_P(FewBitsRows, AreRightInRandomSchedules) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("native");
  SketchInput input{w, target, 2};
  int checked = 0;
  for (uint64_t seed = 1; seed < 40 && checked < 4; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], input, trial);
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
      ++checked;
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_EQ(checked, 4);
}

INSTANTIATE_TEST_SUITE_P(
    All, FewBitsRows,
    testing::Values("matmul:m=20,n=48,k=64,dtype=i4", "matmul:m=1,n=40,k=100,dtype=u4",
                    "matmul:m=7,n=33,k=45,dtype=u4,w.dtype=i4,trans_a=true",
                    "matmul:m=3,n=48,k=64,batch=2,dtype=i4,w.dtype=i2,trans_b=true",
                    "matmul:m=9,n=48,k=64,dtype=i4,out=f16,w.group=32,w.scale=f16",
                    "matmul:m=5,n=48,k=64,dtype=i4,acc=f32,w.dtype=u2,w.zero=u2,w.group=16",
                    "matmul:m=17,n=32,k=96,dtype=u1", "matmul:m=4,n=48,k=64,dtype=i1",
                    "matmul:m=9,n=48,k=64,dtype=i4,w.sparse=2:4"));

}  // namespace
}  // namespace tilewright
