// Knobs of products with packed weights: no option is refused.
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "tests/tuner/gpu_check.h"

namespace tilewright {
namespace {

// Tiles of 8 rows for 9 and more rows, and tiles wider than the result.
TEST(GpuPacked, EveryAnswerIsLegal) {
  const Target target = Target::parse("cuda:sm_80");
  for (const char* spec :
       {"matmul:m=9,n=40,k=256,dtype=f16,w.dtype=u4,w.group=128,trans_b=true",
        "matmul:m=16,n=24,k=256,dtype=f16,w.dtype=u4,w.group=128,trans_b=true",
        "matmul:m=100,n=200,k=256,dtype=f16,w.dtype=i4,w.group=128,trans_b=true",
        "matmul:m=9,n=40,k=256,dtype=i8,trans_b=true", "matmul:m=9,n=40,k=256,dtype=f16",
        "matmul:m=9,n=40,k=256,dtype=f16,w.sparse=2:4"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Trial trial = Trial::random(seed);
      EXPECT_NO_THROW(apply_sketch(cuda_sketches().front(), {w, target, 1}, trial))
          << trial.config();
    }
  }
}

// A dynamic number of rows, in several tiles or one: tiles, packed codes and byte products, down to
// their text.
TEST(GpuPacked, EveryAnswerIsLegalForRowsThatALaunchCounts) {
  const Target target = Target::parse("cuda:sm_80");
  for (const char* spec :
       {"matmul:m=1..64,n=256,k=256,dtype=f16,w.dtype=u4,w.group=128,w.zero=u4",
        "matmul:m=1..200,n=72,k=256,dtype=bf16,trans_b=true,w.dtype=i4,w.group=64,w.scale=bf16",
        "matmul:m=3..90,n=128,k=512,dtype=i8,acc=f32,w.dtype=i4,w.group=128,w.scale=f16",
        "matmul:m=1..90,n=64,k=512,dtype=f16,w.dtype=i4,w.group=128,w.sparse=2:4"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Trial trial = Trial::random(seed);
      EXPECT_NO_THROW(generate_cuda(
          apply_sketch(cuda_sketches().front(), {w, target, 1}, trial).module(), target))
          << trial.config();
    }
  }
}

TEST(GpuPacked, TilesThatHangOverAreRight) {
  const Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(
      parse_spec("matmul:m=9,n=40,k=256,dtype=f16,w.dtype=u4,w.group=128,trans_b=true"));
  expect_right_on_gpu(
      w, gpu_schedule(w, target, {{".B.layout", "fragments"}, {".tile", "8x64/16"}}), target);
}

// Group sums are scaled correctly if a block has only some of the dynamic rows.
TEST(GpuPacked, GroupsOfRowsThatALaunchCountsAreRight) {
  const Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(
      parse_spec("matmul:m=1..70,n=128,k=256,dtype=f16,w.dtype=u4,w.group=128,w.zero=u4"));
  Schedule s = gpu_schedule(w, target, {{".B.layout", "fragments"}, {".tile", "32x64/16"}});
  for (int64_t m : {1, 32, 33, 70}) expect_right_on_gpu(w, s, target, {{"m", m}});
}

// A long reduction has a split-K knob, but not if its weight has a stored layout.
TEST(GpuPacked, AWeightsLayoutIsKept) {
  const Target target = Target::parse("cuda:sm_80");
  Workload w = make_workload(parse_spec("matmul:m=32,n=64,k=1024,dtype=f16,trans_b=true"));
  for (const char* layout : {"none", "tiles", "ldmatrix"}) {
    SCOPED_TRACE(layout);
    const bool is_plain = layout == std::string("none");
    const Choices choices = {{".gemv?", "none"}, {".B.layout", layout}, {".parts?", 2}};
    const Schedule s = gpu_schedule(w, target, choices);
    EXPECT_EQ(choice_of(gpu_trial(w, target, choices), ".parts"), is_plain ? "2" : "not asked");
    EXPECT_EQ(generate_cuda(s.module(), target).launches.size(), is_plain ? 2u : 1u);
    EXPECT_EQ(s.module().packs.empty(), is_plain);
    expect_right_on_gpu(w, s, target);
  }
}

}  // namespace
}  // namespace tilewright
