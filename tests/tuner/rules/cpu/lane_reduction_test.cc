// Horizontal reductions as compiled C: every number of lanes and of results, compared with the oracle.
#include "ir/ops/spec.h"
#include "tests/tuner/kernel_check.h"

namespace tilewright {
namespace {

class LaneReduction : public testing::TestWithParam<const char*> {};

TEST_P(LaneReduction, IsRight) {
  for (const char* name : {"native", "avx2", "generic"}) {
    const Target target = Target::parse(name);
    for (int64_t results : {1, 2, 4, 8, 16, 32}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(results));
      const Workload w = make_workload(parse_spec(GetParam()));
      Schedule s(lower(w));
      const Block c = s.block("C");
      const std::vector<Loop> loops = s.loops(c);
      const std::vector<Loop> j = s.split(loops[1], {-1, results});
      s.reorder({j[0], j[1], loops[2]});
      const Block init = s.decompose_reduction(c, j[1]);
      if (results > 1) s.vectorize(s.loops(init).back());
      s.vectorize_reduction(j[1]);
      expect_right(w, s, target);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Specs, LaneReduction,
    testing::Values(
        "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=2,dims.j=35,dims.k=48",
        "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=2,dims.j=35,dims.k=39",
        "expr:expr=\"C[i,j] max= A[i,k] - B[j,k]\",dims.i=2,dims.j=35,dims.k=39",
        "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=2,dims.j=35,dims.k=39,dtype=f64",
        "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=2,dims.j=35,dims.k=39,dtype=bf16,out=f32",
        "expr:expr=\"C[i,j] += A[i,k] * B[j,k]\",dims.i=2,dims.j=35,dims.k=39,dtype=i32"));

}  // namespace
}  // namespace tilewright
