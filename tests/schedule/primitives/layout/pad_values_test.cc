// pad_values: intermediates with neutral values in the padding.
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// The maximum of 10 elements in each of 3 rows, and the elements minus it. `term` is the value that
// the maximum is taken over.
std::string program_pad_values(const std::string& term) {
  return R"(
program p(X: f32[3, 10] input, Y: f32[3, 10] output) {
  block root() {
    alloc M: f32[3] global
    alloc D: f32[3, 10] global
    for i in 0..3 { for j in 0..10 {
      block M(vi: spatial 3 = i, vj: reduce 10 = j) {
        init { M[vi] = -inf<f32> }
        M[vi] = max(M[vi], )" +
         term + R"()
      }
    }}
    for i_1 in 0..3 { for j_1 in 0..10 {
      block D(vi: spatial 3 = i_1, vj: spatial 10 = j_1) {
        D[vi, vj] = X[vi, vj] - M[vi]
      }
    }}
    for i_2 in 0..3 { for j_2 in 0..10 {
      block Y(vi: spatial 3 = i_2, vj: spatial 10 = j_2) {
        Y[vi, vj] = D[vi, vj] * 2f32
      }
    }}
  }
})";
}

TEST(PadValues, ChangeNothingInAReduction) {
  RewriteCase c(program_pad_values("X[vi, vj]"));
  c.s.pad_values({"M"}, {4, 8});
  c.s.pad_values({"D"}, {4, 8});
  EXPECT_GOLDEN(c.str());
  c.check();
}

// One condition expresses both where a condition already selects the neutral value.
TEST(PadValues, JoinConditions) {
  RewriteCase c(program_pad_values("select(vj <= vi + 2, X[vi, vj], -inf<f32>)"));
  c.s.pad_values({"M"}, {1, 8});
  EXPECT_GOLDEN(c.str());
  c.check();
}

// A sum of values that are zero in their padding reads them without a copy.
TEST(PadValues, ZerosAreReadOnByPaddedSums) {
  RewriteCase c(R"(
program p(X: f32[3, 10] input, S: f32[3] output) {
  block root() {
    alloc D: f32[3, 10] global
    for i in 0..3 { for j in 0..10 {
      block D(vi: spatial 3 = i, vj: spatial 10 = j) {
        D[vi, vj] = X[vi, vj] * 2f32
      }
    }}
    for i_1 in 0..3 { for j_1 in 0..10 {
      block S(vi: spatial 3 = i_1, vj: reduce 10 = j_1) {
        init { S[vi] = 0f32 }
        S[vi] = S[vi] + D[vi, vj]
      }
    }}
  }
})");
  Schedule unpadded = c.s;
  unpadded.pad_einsum({"S"}, {1, 8});
  EXPECT_EQ(unpadded.trace().steps.back().results, (std::vector<std::string>{"D_pad"}));
  c.s.pad_values({"D"}, {1, 8});
  c.s.pad_einsum({"S"}, {1, 8});
  EXPECT_EQ(c.s.trace().steps.back().results, (std::vector<std::string>{}));
  c.check();
}

TEST(PadValues, Refuses) {
  RewriteCase c(program_pad_values("X[vi, vj]"));
  c.refuses([](Schedule& s) { s.pad_values({"M"}, {4}); }, RefusalKind::BadArgument,
            "argument 'multiples' of pad_values: expected 2 integers of 1 or more");
  c.refuses(
      [](Schedule& s) {
        s.pad_values({"Y"}, {4, 8});
      },
      RefusalKind::BadStructure, "'Y' is a parameter of the program");
  c.s.split(c.s.loops({"M"})[0], {-1, 2});
  c.refuses([](Schedule& s) { s.pad_values({"M"}, {4, 8}); }, RefusalKind::BadStructure, "pad it");
}

}  // namespace
}  // namespace tilewright::test
