#include "schedule/primitives/loops/loops.h"

#include "tests/golden.h"
#include "tests/schedule/support.h"

namespace tilewright {
namespace {

using test::chain;
using test::matmul;
using test::row_reduce;

TEST(Split, ExactFactorsNeedNoPredicate) {
  Schedule s(matmul(32));
  std::vector<Loop> loops = s.split({"i"}, {4, 8});
  EXPECT_EQ(loops, (std::vector<Loop>{{"i_0"}, {"i_1"}}));
  EXPECT_FALSE(s.node(Block{"C"}).predicate.defined());
  EXPECT_REWRITE(matmul(32), s);
}

TEST(Split, RemainderBecomesAPredicate) {
  Schedule s(matmul());
  s.split({"i"}, {2, -1, 4});
  s.split({"k"}, {-1, 3});
  EXPECT_TRUE(s.node(Block{"C"}).predicate.defined());
  EXPECT_REWRITE(matmul(), s);
}

TEST(Split, OfASplitLoop) {
  Schedule s(matmul());
  Loop inner = s.split({"i"}, {-1, 8})[1];
  s.split(inner, {-1, 3});
  EXPECT_REWRITE(matmul(), s);
}

TEST(Split, DynamicExtent) {
  Program p = test::parse(R"(
program p(A: f32[m, 4] input, C: f32[m, 4] output) dims(m: 1..100) {
  block root() {
    for i in 0..m {
      for j in 0..4 {
        block C(vi: spatial m = i, vj: spatial 4 = j) {
          C[vi, vj] = (A[vi, vj] + 1.0f32)
        }
      }
    }
  }
}
)");
  Schedule s(p);
  s.split({"i"}, {-1, 16});
  EXPECT_GOLDEN(test::before_and_after(p, s));
  EXPECT_TRUE(test::replays(p, s));
  for (int64_t m : {1, 16, 37, 100}) {
    EXPECT_TRUE(test::same_meaning(p, s.module(), {{"m", m}}));
  }
  Schedule constant(p);
  constant.split({"i"}, {7, 16});
  EXPECT_TRUE(test::same_meaning(p, constant.module(), {{"m", 100}}));
  EXPECT_REFUSED(Schedule(p).split({"i"}, {6, 16}), BadArgument,
                 "expected a product of at least 100, the extent of loop 'i', got [6, 16] "
                 "(product 96)");
}

TEST(Split, KeepsTheFirstValueOfTheLoop) {
  Program p = test::parse(R"(
  block root() {
    for i in 8..8+50 {
      block C(v: spatial 64 = i) {
        C[v] = A[v]
      }
    }
  }
)");
  Schedule s(p);
  s.split({"i"}, {-1, 16});
  EXPECT_GOLDEN(test::before_and_after(p, s));
}

TEST(Split, Refusals) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.split({"x"}, {1, 2}), NotFound, "no loop 'x'; there are: i, j, k");
  const char* expected = "argument 'factors' of split: expected integers of 1 or more";
  EXPECT_REFUSED(s.split({"i"}, {}), BadArgument, expected);
  EXPECT_REFUSED(s.split({"i"}, {0, 4}), BadArgument, expected);
  EXPECT_REFUSED(s.split({"i"}, {-2, 4}), BadArgument, expected);
  EXPECT_REFUSED(s.split({"i"}, {-1, -1}), BadArgument, expected);
  EXPECT_REFUSED(s.split({"i"}, {INT64_MAX, 2}), BadArgument, expected);
  EXPECT_REFUSED(s.split({"i"}, {4, 4}), BadArgument, "a product of at least 30");
  s.unroll({"i"});
  EXPECT_REFUSED(s.split({"i"}, {5, 6}), BadStructure,
                 "loop 'i' is unrolled; rewrite loops before they get a kind");
}

TEST(Fuse, TwoLoops) {
  Schedule s(matmul());
  EXPECT_EQ(s.fuse({{"i"}, {"j"}}), Loop{"i_j_fused"});
  EXPECT_REWRITE(matmul(), s);
}

TEST(Fuse, UndoesASplit) {
  Schedule s(matmul(32));
  s.fuse(s.split({"i"}, {2, 4, 4}));
  EXPECT_EQ(s.node(Block{"C"}).iters[0].binding.kind(), ExprKind::Var);
  EXPECT_REWRITE(matmul(32), s);
}

TEST(Fuse, Refusals) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.fuse({{"i"}}), BadArgument, "expected two loops or more, got [i]");
  EXPECT_REFUSED(s.fuse({{"i"}, {"i"}}), BadArgument, "expected each loop once, got [i, i]");
  EXPECT_REFUSED(s.fuse({{"i"}, {"k"}}), BadStructure,
                 "loop 'k' is not the whole body of loop 'i'");
  EXPECT_REFUSED(s.fuse({{"j"}, {"i"}}), BadStructure,
                 "loop 'i' is not the whole body of loop 'j'");
  Schedule kinds(matmul());
  kinds.parallel({"i"});
  EXPECT_REFUSED(kinds.fuse({{"i"}, {"j"}}), BadStructure, "loop 'i' is parallel");
  Schedule triangle(test::parse(R"(
  block root() {
    for i in 0..8 {
      for j in 0..(i + 1) {
        block C(v: spatial 64 = ((i * 8) + j)) {
          C[v] = A[v]
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(triangle.fuse({{"i"}, {"j"}}), BadStructure,
                 "the range of loop 'j' depends on loop 'i'");
  EXPECT_REFUSED(triangle.reorder({{"j"}, {"i"}}), BadStructure,
                 "the range of loop 'j' depends on loop 'i', which would come inside it");
}

TEST(Reorder, TilesAMatmul) {
  Schedule s(matmul(32));
  std::vector<Loop> i = s.split({"i"}, {4, 8}), j = s.split({"j"}, {2, 8}),
                    k = s.split({"k"}, {2, 4});
  s.reorder({i[0], j[0], k[0], i[1], k[1], j[1]});
  EXPECT_EQ(s.loops({"C"}),
            (std::vector<Loop>{{"i_0"}, {"j_0"}, {"k_0"}, {"i_1"}, {"k_1"}, {"j_1"}}));
  EXPECT_REWRITE(matmul(32), s);
}

TEST(Reorder, OthersKeepTheirPlaces) {
  Schedule s(matmul());
  s.reorder({{"k"}, {"i"}});
  EXPECT_EQ(s.loops({"C"}), (std::vector<Loop>{{"k"}, {"j"}, {"i"}}));
  EXPECT_REWRITE(matmul(), s);
}

TEST(Reorder, OfTheSameOrderIsTheSameProgram) {
  Schedule s(matmul());
  Stmt before = s.program().body;
  s.reorder({{"i"}, {"j"}});
  EXPECT_TRUE(before.same_as(s.program().body));
}

TEST(Reorder, WithRemainders) {
  Schedule s(matmul(30, 17, 7));
  std::vector<Loop> i = s.split({"i"}, {-1, 4}), j = s.split({"j"}, {-1, 5}),
                    k = s.split({"k"}, {-1, 4});
  s.reorder({k[0], i[0], j[0], k[1], j[1], i[1]});
  EXPECT_REWRITE(matmul(30, 17, 7), s);
}

TEST(Reorder, Refusals) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.reorder({}), BadArgument, "expected a loop or more");
  EXPECT_REFUSED(s.reorder({{"j"}, {"j"}}), BadArgument, "expected each loop once");
  Schedule two(chain());
  EXPECT_REFUSED(two.reorder({{"i"}, {"j_1"}}), BadStructure,
                 "loop 'i' does not stand around or under loop 'j_1'");
  Schedule kinds(matmul());
  kinds.reorder({{"k"}, {"j"}});
  kinds.vectorize({"j"});
  EXPECT_REFUSED(kinds.reorder({{"j"}, {"k"}}), BadStructure,
                 "loop 'j' is not innermost: loop 'k' is under it");
}

TEST(Reorder, AcrossBranchingIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[64] global
    for i in 0..8 {
      for j in 0..8 {
        block T(v: spatial 64 = ((i * 8) + j)) {
          T[v] = A[v]
        }
      }
      for j_1 in 0..8 {
        block C(v: spatial 64 = ((i * 8) + j_1)) {
          C[v] = T[v]
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.reorder({{"j"}, {"i"}}), BadStructure,
                 "between loops 'i' and 'j' the nest branches: loop 'i' holds 2 statements");
}

// An iteration repeats what others computed. This is legal as long as no reduction moves out of it.
TEST(Reorder, RepeatedReductionIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    for i in 0..4 {
      for k in 0..16 {
        block C(v: spatial 64 = 0, vk: reduce 16 = k) {
          init {
            C[v] = 0.0f32
          }
          C[v] = (C[v] + A[vk])
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.reorder({{"k"}, {"i"}}), Dependence,
                 "loop 'i' may repeat iterations of block 'C', whose reduction is among the loops");
}

// An element's first iteration has k = 0. The order of the fused loop's parts decides when it runs.
TEST(Reorder, UpdatesBeforeTheirInitAreRefused) {
  Schedule s(matmul(6, 4, 7));
  Loop fused = s.fuse({{"j"}, {"k"}});
  std::vector<Loop> parts = s.split(fused, {-1, 2});
  EXPECT_REFUSED(s.reorder({parts[1], parts[0]}), Dependence,
                 "loop 'j_k_fused_1' would come outside of loop 'j_k_fused_0', and which iteration "
                 "of block 'C' is the first of an element, and runs the init, depends on their "
                 "order");
  s.reorder({parts[0], parts[1], {"i"}});
  EXPECT_TRUE(test::same_meaning(matmul(6, 4, 7), s.module()));
}

// A loop that shares only a condition with the fused loop may not move either: the diagonal's first
// iteration would come last.
TEST(Reorder, AConditionTiesLoopsToAFusedOne) {
  Schedule s(test::parse(R"(
  block root() {
    for r in 0..4 {
      for f in 0..32 {
        block C(v: spatial 64 = floordiv(f, 4), vk: reduce 4 = floormod(f, 4), vr: reduce 4 = r) where ((r + f) < 32) {
          init {
            C[v] = 0.0f32
          }
          C[v] = (C[v] + A[((v * 8) + vk)])
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.reorder({{"f"}, {"r"}}), Dependence, "loop 'f' would come outside of loop 'r'");
}

TEST(Reorder, UpdatesAreFreeOnceTheirInitStandsAlone) {
  Schedule s(matmul(6, 4, 7));
  s.decompose_reduction({"C"}, {"j"});
  Loop fused = s.fuse({{"j"}, {"k"}});
  std::vector<Loop> parts = s.split(fused, {-1, 2});
  s.reorder({parts[1], parts[0]});
  EXPECT_TRUE(test::same_meaning(matmul(6, 4, 7), s.module()));
}

TEST(Reorder, FlowBetweenIterationsIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[9] global
    for i in 0..8 {
      for j in 0..8 {
        block T(v: spatial 9 = (i + 1)) {
          T[v] = A[v]
        }
        block C(vi: spatial 8 = i, vj: spatial 8 = j) {
          C[((vi * 8) + vj)] = T[vi]
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.reorder({{"j"}, {"i"}}), Dependence,
                 "may read elements of 'T' that another iteration writes");
}

// The reader precedes the writer: it sees what the previous iteration wrote.
TEST(Reorder, FlowToALaterIterationIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[1] global
    for z in 0..1 {
      block T0(v: spatial 1 = z) {
        T[v] = A[0]
      }
    }
    for i in 0..8 {
      for j in 0..8 {
        block C(vi: spatial 8 = i, vj: spatial 8 = j) {
          C[((vi * 8) + vj)] = T[0]
        }
        block T(v: spatial 1 = 0, vi: spatial 8 = i, vj: spatial 8 = j) {
          T[v] = A[((vi * 8) + vj)]
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.reorder({{"j"}, {"i"}}), Dependence,
                 "may read elements of 'T' that another iteration writes");
}

TEST(Tile, IsTwoSplitsAndAReorder) {
  Schedule s(matmul());
  std::array<Loop, 4> loops = s.tile({"i"}, {"j"}, 8, 4);
  EXPECT_EQ(loops, (std::array<Loop, 4>{{{"i_0"}, {"j_0"}, {"i_1"}, {"j_1"}}}));
  EXPECT_EQ(s.trace().steps.size(), 3u);
  EXPECT_REWRITE(matmul(), s);
}

TEST(Tile, RefusedChangesNothing) {
  Schedule s(matmul());
  Stmt before = s.program().body;
  EXPECT_REFUSED(s.tile({"i"}, {"j"}, 8, 0), BadArgument, "got [-1, 0]");
  EXPECT_TRUE(before.same_as(s.program().body));
  EXPECT_TRUE(s.trace().steps.empty());
}

TEST(Merge, PointwiseConsumer) {
  Schedule s(chain());
  EXPECT_EQ(s.merge({{"i"}, {"i_1"}}), Loop{"i"});
  EXPECT_EQ(s.merge({{"j"}, {"j_1"}}), Loop{"j"});
  EXPECT_REWRITE(chain(), s);
}

TEST(Merge, Refusals) {
  Schedule s(chain());
  EXPECT_REFUSED(s.merge({{"i"}}), BadArgument, "expected two loops or more");
  EXPECT_REFUSED(s.merge({{"i_1"}, {"i"}}), BadStructure,
                 "the loops must follow each other in one sequence; 'i' does not");
  EXPECT_REFUSED(s.merge({{"i"}, {"j"}}), BadStructure, "'j' does not");
}

TEST(Merge, RangesMustAgree) {
  Schedule s(chain());
  s.split({"i"}, {5, 4});
  EXPECT_REFUSED(s.merge({{"i_0"}, {"i_1"}}), BadStructure,
                 "the ranges of loops 'i_0' and 'i_1' differ");
}

const char* const kShifted = R"(
  block root() {
    alloc T: f32[64] global
    for i in 0..63 {
      block T(v: spatial 64 = i) {
        T[v] = A[v]
      }
    }
    for i_1 in 0..63 {
      block C(v: spatial 64 = i_1) {
        C[v] = T[min((v + 1), 62)]
      }
    }
  }
)";

TEST(Merge, FlowFromLaterIterationsIsRefused) {
  Schedule s(test::parse(kShifted));
  EXPECT_REFUSED(s.merge({{"i"}, {"i_1"}}), Dependence,
                 "an iteration of loop 'i_1' may read elements of 'T' that another iteration of "
                 "loop 'i' writes");
}

// The four elements that an iteration of i writes lie in rows that it does not fill.
TEST(Merge, FlowThroughABoxWithHolesIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[2, 3] global
    for i in 0..2 {
      for j in 0..4 {
        block T(v: spatial 6 = ((i * 4) + j)) where (((i * 4) + j) < 6) {
          T[floordiv(v, 3), floormod(v, 3)] = A[v]
        }
      }
    }
    for i_1 in 0..2 {
      for j_1 in 0..3 {
        block C(vi: spatial 2 = i_1, vj: spatial 3 = j_1) {
          C[((vi * 3) + vj)] = T[vi, vj]
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.merge({{"i"}, {"i_1"}}), Dependence, "may read elements of 'T'");
}

// A row of sums starts at values of its columns; an iteration of i has stored only one of these.
constexpr char kStarts[] = R"(
program p(A: f32[4, 3] input, B: f32[4] input, C: f32[4, 4] output) {
  block root() {
    alloc S: f32[4] global
    for i in 0..4 { block S(v: spatial 4 = i) { S[v] = B[v] * 2.0f32 } }
    for r in 0..4 { for c in 0..4 { for k in 0..3 {
      block C(vr: spatial 4 = r, vc: spatial 4 = c, vk: reduce 3 = k) {
        init { C[vr, vc] = S[vc] }
        C[vr, vc] = C[vr, vc] + A[vr, vk]
      }
    }}}
  }
})";

TEST(Merge, InitsThatReadOtherIterationsAreRefused) {
  Schedule s(test::parse(kStarts));
  EXPECT_REFUSED(s.merge({{"i"}, {"r"}}), Dependence, "may read elements of 'S'");
  s.reorder({{"c"}, {"r"}});
  s.merge({{"i"}, {"c"}});
  EXPECT_TRUE(test::same_meaning(test::parse(kStarts), s.module()));
}

TEST(Merge, OverwritingIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    for i in 0..64 {
      block C(v: spatial 64 = i) {
        C[v] = A[v]
      }
    }
    for i_1 in 0..64 {
      block D(v: spatial 64 = i_1) {
        C[(63 - v)] = A[v]
      }
    }
  }
)"));
  EXPECT_REFUSED(s.merge({{"i"}, {"i_1"}}), Dependence,
                 "loop 'i_1' writes 'C', which loop 'i' before it still uses");
}

TEST(Merge, UnfinishedReductionIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[1] global
    for k in 0..64 {
      block T(v: spatial 1 = 0, vk: reduce 64 = k) {
        init {
          T[v] = 0.0f32
        }
        T[v] = (T[v] + A[vk])
      }
    }
    for i in 0..64 {
      block C(v: spatial 64 = i) {
        C[v] = T[0]
      }
    }
  }
)"));
  EXPECT_REFUSED(s.merge({{"k"}, {"i"}}), Dependence,
                 "loop 'i' reads 'T', which block 'T' still reduces into under loop 'k'");
}

TEST(AddUnitLoop, AroundABlock) {
  Schedule s(row_reduce());
  EXPECT_EQ(s.add_unit_loop({"S"}), Loop{"S_u"});
  EXPECT_REWRITE(row_reduce(), s);
}

TEST(AddUnitLoop, Refusals) {
  Schedule s(row_reduce());
  EXPECT_REFUSED(s.add_unit_loop({"root"}), BadStructure, "block 'root' is the whole program");
  EXPECT_REFUSED(s.add_unit_loop({"X"}), NotFound, "no block 'X'; there are: root, S");
}

}  // namespace
}  // namespace tilewright
