// Errors at only a few sizes are found at the kernel's own check sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "runtime/check/check_points.h"
#include "runtime/worker/jobs.h"
#include "tests/tuner/kernel_check.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

// Tiles of 7 rows by a vector.
Schedule in_tiles(const Workload& w) {
  Schedule s(lower(w));
  const Block c = s.block("C");
  const std::vector<Loop> loops = s.loops(c);
  const std::vector<Loop> i = s.split(loops[0], {-1, 7}), j = s.split(loops[1], {-1, 16});
  s.reorder({i[0], j[0], loops[2], i[1], j[1]});
  s.decompose_reduction(c, loops[2]);
  s.unroll(i[1]);
  s.vectorize(j[1]);
  return s;
}

CheckResult check_at(const Workload& w, const KernelSource& source,
                     const std::map<std::string, int64_t>& dims) {
  Kernel kernel(compile(source).object, source.description);
  OperandSet operands(operands_of(w, dims), 1);
  ThreadPool pool(1);
  BoundKernel bound(kernel, operands, dim_values(w, dims), pool);
  Oracle oracle(w, seeded_readers(operands.infos(), 1), dims);
  return check_kernel(bound, make_reference(operands.output().elem(), operands.output().shape(),
                                            2000, 1, [&](int64_t i) { return oracle.at(i); }));
}

// Changes one character of the kernel's text, so that a whole last tile is taken for a tail.
KernelSource with_broken_guard(KernelSource source) {
  const size_t at = source.code.find("_left < 7");
  EXPECT_NE(at, std::string::npos) << source.code;
  source.code.replace(at, 9, "_left <= 7");
  return source;
}

TEST(CheckedSizes, FindAGuardThatIsWrongAtWholeTilesAlone) {
  const Workload w = make_workload(parse_spec("matmul:m=1..65,n=32,k=8"));
  const KernelSource right = generate_c(in_tiles(w).module(), Target::parse("native"));
  const KernelSource wrong = with_broken_guard(right);
  // Both ends, one size in between and one below the largest do not show the error.
  for (int64_t m : {1, 23, 64, 65}) {
    EXPECT_EQ(check_at(w, wrong, {{"m", m}}).verdict, Verdict::Ok) << m;
  }
  EXPECT_NE(check_at(w, wrong, {{"m", 14}}).verdict, Verdict::Ok);
  int found = 0;
  for (const auto& dims : check_points(w, right.description.sizes)) {
    EXPECT_EQ(check_at(w, right, dims).verdict, Verdict::Ok) << dims.at("m");
    const bool is_whole = dims.at("m") % 7 == 0;
    EXPECT_EQ(check_at(w, wrong, dims).verdict != Verdict::Ok, is_whole) << dims.at("m");
    found += is_whole ? 1 : 0;
  }
  EXPECT_GE(found, 3);
}

// Like a worker's job: the sizes come with the kernel's description.
TEST(CheckedSizes, AreThoseOfAMeasurement) {
  const Workload w = make_workload(parse_spec("matmul:m=1..65,n=32,k=8"));
  const KernelSource right = generate_c(in_tiles(w).module(), Target::parse("native"));
  JobHandlers handlers = runtime_handlers(parse_workload);
  auto measure = [&](const KernelSource& source) {
    MeasureJob job;
    job.object = compile(source).object;
    job.description = source.description;
    job.workload = w.canonical;
    job.dims = largest_sizes(w);
    job.timing.max_seconds = 0.01;
    return measure_result_from_json(handlers.at("measure")(to_json(job)));
  };
  EXPECT_EQ(measure(right).verdict, Verdict::Ok);
  const MeasureResult wrong = measure(with_broken_guard(right));
  EXPECT_EQ(wrong.verdict, Verdict::Wrong);
  EXPECT_THAT(wrong.message, HasSubstr(" at m = 7"));
}

}  // namespace
}  // namespace tilewright
