// Reductions whose vectors lie along them (vectorize_reduction): lowered and interpreted.
#include <gmock/gmock.h>

#include "tests/codegen/support.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The rows of B times each row of A: `results` at a time, over `terms` of k at a time.
Schedule dots(const std::string& expression, const std::string& dims, int64_t results,
              int64_t terms) {
  Schedule s(lower(
      make_workload(parse_spec("expr:expr=\"" + expression + "\",dims.i=3,dims.j=43," + dims))));
  const Block c = s.block("C");
  const std::vector<Loop> loops = s.loops(c);
  const std::vector<Loop> j = s.split(loops[1], {-1, results});
  const std::vector<Loop> k = s.split(loops[2], {-1, terms});
  s.reorder({loops[0], j[0], k[0], j[1], k[1]});
  s.decompose_reduction(c, k[0]);
  s.vectorize_reduction(j[1]);
  return s;
}

// Results and terms that are no whole vectors, for vectors that are longer and shorter than the
// results.
TEST(LaneReduction, KeepsItsMeaning) {
  for (const char* expression : {"C[i,j] += A[i,k] * B[j,k]", "C[i,j] max= A[i,k] - B[j,k]"}) {
    for (int64_t results : {1, 4, 16, 32}) {
      for (const auto& [k, terms] : {std::pair{48, 48}, {37, 37}, {37, 20}, {2, 2}}) {
        SCOPED_TRACE(std::string(expression) + " " + std::to_string(results) + " " +
                     std::to_string(k) + " " + std::to_string(terms));
        test::expect_same_meaning(
            dots(expression, "dims.k=" + std::to_string(k), results, terms).program());
      }
    }
  }
}

// A vector of results by one horizontal sum, whose arguments are sums of whole vectors.
TEST(LaneReduction, IsOneCallPerVectorOfResults) {
  const Schedule s = dots("C[i,j] += A[i,k] * B[j,k]", "dims.k=48", 4, 48);
  LoweringOptions options;
  options.last = "vectorize_loops";
  const std::string text = to_string(lower_for_cpu(s.program(), Target::parse("avx512"), options));
  EXPECT_THAT(text, HasSubstr("lane_sum<f32x4>("));
  EXPECT_THAT(text, Not(HasSubstr("for k"))) << text;
}

// Results that stand eight apart, then start again beside the first ones: no vector of them is stored at once.
TEST(LaneReduction, RefusesResultsAtSeveralStrides) {
  Schedule s = dots("C[i,j] += A[i,k] * B[j,k]; D[i,j] = C[i,j]", "dims.k=16", 16, 16);
  s.transform_layout("C", IndexMap::make(2, [](const std::vector<Var>& x) {
                       return std::vector<Expr>{floordiv(x[1], 8), x[0], floormod(x[1], 8)};
                     }));
  EXPECT_THROW(lower_for_cpu(s.program(), Target::parse("avx512"), {}), LoweringError);
}

// The loop itself may be the reduction: one result.
TEST(LaneReduction, OfOneResult) {
  for (const char* reducer : {"+=", "max="}) {
    Schedule s(lower(make_workload(
        parse_spec(std::string("expr:expr=\"C[i] ") + reducer + " A[i,k]\",dims.i=3,dims.k=37"))));
    const Loop k = s.loops(s.block("C"))[1];
    s.decompose_reduction(s.block("C"), k);
    s.vectorize_reduction(k);
    test::expect_same_meaning(s.program());
  }
}

}  // namespace
}  // namespace tilewright
