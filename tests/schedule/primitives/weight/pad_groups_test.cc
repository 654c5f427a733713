// pad_groups: groups along a reduction padded to a length that instructions take.
#include "ir/interpreter/interpreter.h"
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// Eight elements along k; groups of three share a scale and a zero point.
constexpr char kRagged[] = R"(
program p(A: f32[3, 8] input, B: u4[8, 4] weight, S: f32[3, 4] weight, Z: u4[3, 4] weight,
          C: f32[3, 4] output) {
  block root() {
    alloc V: f32[8, 4] global
    for k in 0..8 { for j in 0..4 {
      block V(vk: spatial 8 = k, vj: spatial 4 = j) {
        V[vk, vj] = (cast<f32>(B[vk, vj]) - cast<f32>(Z[floordiv(vk, 3), vj])) *
          S[floordiv(vk, 3), vj]
      }
    }}
    for i in 0..3 { for j_1 in 0..4 { for k_1 in 0..8 {
      block C(vi: spatial 3 = i, vj: spatial 4 = j_1, vk: reduce 8 = k_1) {
        init { C[vi, vj] = 0f32 }
        C[vi, vj] = C[vi, vj] + A[vi, vk] * V[vk, vj]
      }
    }}}
  }
})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

TEST(PadGroups, FillsEachGroupWithZeros) {
  RewriteCase c(kRagged);
  EXPECT_EQ(c.s.pad_groups({"C"}, {"V"}, 3, 4), (std::vector<Block>{{"A_groups"}, {"B_groups"}}));
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(PadGroups, FillsTheLastGroupAlone) {
  RewriteCase c(kRagged);
  c.s.pad_groups({"C"}, {"V"}, 3, 3);
  EXPECT_EQ(as_int(c.s.node(Block{"C"}).iters[2].extent), 9);
  c.check();
}

TEST(PadGroups, TheWeightIsPaddedAtLoad) {
  RewriteCase c(kRagged);
  c.s.precompute(c.s.pad_groups({"C"}, {"V"}, 3, 5)[1]);
  EXPECT_EQ(c.s.module().packs.size(), 1u);
  EXPECT_EQ(c.s.program().params[1].buffer->name, "B_groups");
  c.check();
}

TEST(PadGroups, ThenScalesAreFactoredOut) {
  RewriteCase c(kRagged);
  c.s.precompute(c.s.pad_groups({"C"}, {"V"}, 3, 4)[1]);
  c.s.compute_inline({"V"});
  std::vector<Loop> k = c.s.split({"k_1"}, {-1, 4});
  c.s.decompose_reduction({"C"}, k[0]);
  c.s.factor_scale({"C"}, k[1], ElemType::f32);
  c.check();
}

TEST(PadGroups, OneGroupMayBeLongerThanTheReduction) {
  RewriteCase c(with(kRagged, "floordiv(vk, 3)", "0"));
  c.s.pad_groups({"C"}, {"V"}, 100, 12);
  EXPECT_EQ(as_int(c.s.node(Block{"C"}).iters[2].extent), 12);
  c.check();
}

TEST(PadGroups, RefusesLengthsThatAreNone) {
  RewriteCase c(kRagged);
  c.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 0, 4); }, RefusalKind::BadArgument,
            "argument 'group' of pad_groups: expected a number of elements, got 0", false);
  c.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 3, 2); }, RefusalKind::BadArgument,
            "argument 'to' of pad_groups: expected at least the 3 elements of a group, got 2",
            false);
}

TEST(PadGroups, RefusesWhatIsNoSumWithSuchAValue) {
  RewriteCase c(kRagged);
  c.refuses(
      [](Schedule& s) { s.pad_groups({"C"}, {"V"}, 4, 4); }, RefusalKind::Unsupported,
      "block 'V' reads 'Z' neither as its one weight at iterator 'vk' nor at its groups of 4");
  c.refuses([](Schedule& s) { s.pad_groups({"V"}, {"C"}, 3, 4); }, RefusalKind::Unsupported,
            "block 'V' sums no products over one reduction of a constant extent");
  c.refuses([](Schedule& s) { s.pad_groups({"C"}, {"C"}, 3, 4); }, RefusalKind::Unsupported,
            "block 'C' does not multiply what block 'C' writes by an element");
  RewriteCase input(with(kRagged, "B: u4[8, 4] weight", "B: u4[8, 4] input"));
  input.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 3, 4); }, RefusalKind::Unsupported,
                "block 'V' reads 'B' neither as its one weight");
  RewriteCase across(with(kRagged, "A[vi, vk]", "A[vi, 7 - vk]"));
  across.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 3, 4); }, RefusalKind::Unsupported,
                 "block 'C' does not read both factors at iterator 'vk' itself");
  RewriteCase none(with(kRagged, "cast<f32>(B[vk, vj])", "1f32"));
  none.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 3, 4); }, RefusalKind::Unsupported,
               "block 'V' reads no weight at iterator 'vk'");
  c.s.split({"k_1"}, {2, 4});
  c.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 3, 4); }, RefusalKind::BadStructure,
            "pad its groups before it is scheduled");
}

TEST(PadGroups, RefusesAValueThatOthersRead) {
  RewriteCase c(
      with(with(kRagged, "C: f32[3, 4] output", "C: f32[3, 4] output, D: f32[8, 4] output"),
           "    for i in 0..3",
           "    for k_2 in 0..8 { for j_2 in 0..4 {\n"
           "      block D(vk: spatial 8 = k_2, vj: spatial 4 = j_2) "
           "{ D[vk, vj] = V[vk, vj] }\n    }}\n    for i in 0..3"));
  c.refuses([](Schedule& s) { s.pad_groups({"C"}, {"V"}, 3, 4); }, RefusalKind::Unsupported,
            "block 'V' does not write all of 'V' for block 'C' alone");
}

}  // namespace
}  // namespace tilewright::test
