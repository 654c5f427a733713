// unit_index: replaces an index of 0 by an iterator that is always 0.
#include "schedule/primitives/layout/unit_index.h"

#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// One row of 12, its maximum, and the row minus its maximum.
std::string program_unit_index() {
  return R"(
program p(X: f32[1, 12] input, Y: f32[1, 12] output) {
  block root() {
    alloc M: f32[1] global
    for i in 0..1 { for j in 0..12 {
      block M(vi: spatial 1 = i, vj: reduce 12 = j) {
        init { M[0] = -inf<f32> }
        M[0] = max(M[0], X[0, vj])
      }
    }}
    for i_1 in 0..1 { for j_1 in 0..12 {
      block Y(vi: spatial 1 = i_1, vj: spatial 12 = j_1) {
        Y[vi, vj] = X[0, vj] - M[0]
      }
    }}
  }
})";
}

TEST(UnitIndex, NamesTheRow) {
  RewriteCase c(program_unit_index());
  c.s.unit_index({"M"}, "M", 0, "vi");
  c.s.unit_index({"Y"}, "M", 0, "vi");
  c.s.unit_index({"Y"}, "X", 0, "vi");
  EXPECT_GOLDEN(c.str());
  c.check();
  // Padding requires this form.
  c.s.pad_values({"M"}, {4, 1});
  c.check();
}

TEST(UnitIndex, Refuses) {
  RewriteCase c(program_unit_index());
  c.refuses(
      [](Schedule& s) {
        s.pad_values({"M"}, {4, 1});
      },
      RefusalKind::Unsupported, "which is to be padded, is no index of 'M'");
  c.refuses([](Schedule& s) { s.unit_index({"M"}, "M", 0, "vj"); }, RefusalKind::BadArgument,
            "a spatial iterator of block 'M' with one iteration");
  c.refuses([](Schedule& s) { s.unit_index({"Y"}, "X", 1, "vi"); }, RefusalKind::BadStructure,
            "block 'Y' has no access to 'X' at 0 along dimension 1");
  c.refuses([](Schedule& s) { s.unit_index({"Y"}, "Y", 0, "vi"); }, RefusalKind::BadStructure,
            "has no access to 'Y'");
}

}  // namespace
}  // namespace tilewright::test
