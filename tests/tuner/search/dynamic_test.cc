// Kernels for a range of sizes: compiled, and compared with the oracle at many of the sizes.
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/candidate.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using Dims = std::map<std::string, int64_t>;

// Runs the schedule's kernel at each of the points on two threads.
void expect_right_at(const Workload& w, const Schedule& s, const Target& target,
                     const std::vector<Dims>& points) {
  KernelSource source = generate_c(s.module(), target);
  Kernel kernel(test_object(source), source.description);
  ThreadPool pool(2);
  for (const Dims& dims : points) {
    OperandSet operands(operands_of(w, dims), 1);
    BoundKernel bound(kernel, operands, dim_values(w, dims), pool);
    Oracle oracle(w, seeded_readers(operands.infos(), 1), dims);
    Reference reference = make_reference(operands.output().elem(), operands.output().shape(), 200,
                                         1, [&](int64_t i) { return oracle.at(i); });
    CheckResult result = check_kernel(bound, reference);
    std::string at;
    for (const auto& [name, value] : dims) at += " " + name + "=" + std::to_string(value);
    EXPECT_EQ(result.verdict, Verdict::Ok) << result.message << " at" << at;
  }
}

// The ends of each range, their neighbours, and sizes on both sides of tile boundaries.
std::vector<Dims> points_of(const Workload& w) {
  std::vector<Dims> points;
  for (int64_t step : {0, 1, 2, 3, 4, 6, 7, 11, 13, 16, 20, 30, 1000}) {
    Dims dims;
    for (const DimVar& d : w.dims) dims[d.var.name()] = std::min(d.max, d.min + step);
    if (points.empty() || points.back() != dims) points.push_back(dims);
    Dims below;
    for (const DimVar& d : w.dims) below[d.var.name()] = std::max(d.min, d.max - step);
    points.push_back(below);
  }
  return points;
}

class Dynamic : public testing::TestWithParam<const char*> {};

TEST_P(Dynamic, IsRightAtEverySize) {
  Workload w = make_workload(parse_spec(GetParam()));
  ASSERT_FALSE(w.dims.empty());
  Target target = Target::parse("native");
  SketchInput input{w, target, 2};
  std::vector<Dims> points = points_of(w);
  Trial none = Trial::first();
  expect_right_at(w, apply_sketch(default_sketch(), input, none), target, points);
  Trial first = Trial::first();
  Schedule tuned = apply_sketch(cpu_sketches()[0], input, first);
  {
    SCOPED_TRACE(first.config());
    expect_right_at(w, tuned, target, points);
  }
  int built = 0, tried = 0;
  for (uint64_t seed = 1; seed < 20 && built < 2; ++seed) {
    Trial random = Trial::random(seed);
    ++tried;
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], input, random);
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + random.config());
      expect_right_at(w, s, target, points);
      ++built;
    } catch (const ScheduleError&) {
    } catch (const LoweringError&) {
    }
  }
  EXPECT_EQ(built, 2) << "of " << tried << " random candidates";
}

INSTANTIATE_TEST_SUITE_P(
    Contractions, Dynamic,
    testing::Values("matmul:m=1..64,n=50,k=29", "matmul:m=1..5,n=64,k=40",
                    "matmul:m=3..40,n=33,k=20,epilogue=[bias,gelu]",
                    "matmul:m=1..40,n=48,k=64,dtype=bf16", "matmul:m=1..40,n=48,k=64,dtype=i8",
                    "matmul:m=1..20,n=64,k=64,w.dtype=u4,w.group=32",
                    "matmul:m=1..9,n=24,k=16,batch=1..3", "matmul:m=20,n=1..70,k=16",
                    "matmul:m=12,n=40,k=1..33", "matmul:m=1..6,n=16,k=2048",
                    "conv2d:n=1..5,h=6,w=7,ci=5,co=18,kernel=3,pad=1",
                    "conv2d:n=1..3,h=5,w=7,ci=6,co=20,kernel=3,layout=nchw,epilogue=[bias,relu]",
                    "conv1d:n=2,l=4..30,ci=8,co=20,kernel=3,pad=1",
                    R"s(expr:expr="C[i,j] += A[i,k] * B[k,j]",dims.i=1..30,dims.j=48,dims.k=20)s"));

INSTANTIATE_TEST_SUITE_P(Rows, Dynamic,
                         testing::Values("softmax:m=1..40,n=130", "softmax:m=20,n=1..130",
                                         "layer_norm:m=1..30,n=100", "rms_norm:m=2..9,n=200",
                                         "reduce:shape=[1..40,70],axes=1,kind=max",
                                         "reduce:shape=[40,1..70],axes=[0],kind=sum"));

INSTANTIATE_TEST_SUITE_P(
    Injective, Dynamic,
    testing::Values("elementwise:shape=[1..33,65],fn=gelu", "elementwise:shape=[7,1..65],fn=add",
                    "elementwise:shape=[1..3000],fn=relu",
                    R"x(expr:expr="C[i, j] = A[j, i]",dims.i=1..70,dims.j=37)x",
                    R"x(expr:expr="C[i, j] = A[j, i]",dims.i=19,dims.j=1..70)x",
                    R"x(expr:expr="C[i, j] = A[j, i]",dims.i=19,dims.j=1..12)x"));

}  // namespace
}  // namespace tilewright
