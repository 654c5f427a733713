#include "schedule/primitives/loops/loop_kinds.h"

#include "ir/text/parser.h"
#include "tests/golden.h"
#include "tests/schedule/support.h"

namespace tilewright {
namespace {

using test::chain;
using test::matmul;
using test::row_reduce;

TEST(Parallel, OuterLoop) {
  Schedule s(matmul());
  s.parallel({"i"});
  EXPECT_REWRITE(matmul(), s);
}

TEST(Parallel, FusedTiles) {
  Schedule s(matmul());
  std::array<Loop, 4> t = s.tile({"i"}, {"j"}, 8, 4);
  s.parallel(s.fuse({t[0], t[1]}));
  EXPECT_REWRITE(matmul(), s);
}

TEST(Parallel, FusedTilesSplitAnew) {
  Schedule s(matmul());
  std::array<Loop, 4> t = s.tile({"i"}, {"j"}, 7, 5);
  Loop fused = s.fuse({t[0], t[1]});
  s.parallel(s.split(fused, {-1, 3})[0]);
  EXPECT_REWRITE(matmul(), s);
}

TEST(Parallel, ReductionIsRefused) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.parallel({"k"}), Dependence, "loop 'k' carries the reduction of block 'C'");
  Loop mixed = s.fuse({{"j"}, {"k"}});
  EXPECT_REFUSED(s.parallel(mixed), Dependence, "carries the reduction of block 'C'");
}

TEST(Parallel, NestingIsRefused) {
  Schedule s(matmul());
  s.parallel({"j"});
  EXPECT_REFUSED(s.parallel({"i"}), BadStructure, "loop 'j' under loop 'i' is parallel already");
  EXPECT_REFUSED(s.parallel({"j"}), BadStructure, "loop 'j' is already parallel");
}

// Each iteration of i computes T again, with one element more than the iterations advance.
TEST(Parallel, AnOverlappingPrivateBufferIsFine) {
  Program p = test::parse(R"(
program p(A: f32[64] input, C: f32[56] output) {
  block root() {
    alloc T: f32[64] global
    for i in 0..8 {
      for a in 0..8 {
        block T(v: spatial 64 = ((i * 7) + a)) {
          T[v] = (A[v] * 2.0f32)
        }
      }
      for b in 0..7 {
        block C(v: spatial 56 = ((i * 7) + b)) {
          C[v] = (T[v] + T[(v + 1)])
        }
      }
    }
  }
}
)");
  Schedule s(p);
  s.parallel({"i"});
  EXPECT_REWRITE(p, s);
}

TEST(Parallel, OverlappingWritesOfAnOutputAreRefused) {
  Schedule s(test::parse(R"(
  block root() {
    for i in 0..8 {
      for a in 0..8 {
        block C(v: spatial 64 = ((i * 7) + a)) {
          C[v] = A[v]
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.parallel({"i"}), Dependence,
                 "different iterations of loop 'i' may write the same elements of 'C'");
  s.parallel({"a"});
}

// The binding of v reaches 3, but only runs of the block with v below 2 write. With v up to 3,
// iterations write the same elements.
TEST(Parallel, IteratorsThatHangOverWriteWithinTheirExtents) {
  auto program = [](const std::string& extent) {
    return test::parse(
        "block root() { for i in 0..4 { for a in 0..4 { block C(u: spatial 4 = i, "
        "v: spatial " +
        extent + " = a) where a < " + extent + " { C[u * 2 + v] = A[u * 2 + v] } } } }");
  };
  Schedule apart(program("2"));
  apart.parallel({"i"});
  Schedule meeting(program("3"));
  EXPECT_REFUSED(meeting.parallel({"i"}), Dependence,
                 "different iterations of loop 'i' may write the same elements of 'C'");
}

TEST(Parallel, FlowBetweenIterationsIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[65] global
    for i in 0..64 {
      block T(v: spatial 65 = (i + 1)) {
        T[v] = A[(v - 1)]
      }
      block C(v: spatial 64 = i) {
        C[v] = T[v]
      }
    }
  }
)"));
  EXPECT_REFUSED(s.parallel({"i"}), Dependence,
                 "an iteration of loop 'i' may read elements of 'T' that another iteration writes");
}

TEST(Vectorize, InnermostSpatialLoop) {
  Schedule s(matmul());
  s.reorder({{"k"}, {"j"}});
  s.vectorize({"j"});
  EXPECT_REWRITE(matmul(), s);
}

TEST(Vectorize, Refusals) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.vectorize({"j"}), BadStructure,
                 "loop 'j' is not innermost: loop 'k' is under it");
  EXPECT_REFUSED(s.vectorize({"k"}), Dependence, "loop 'k' carries the reduction of block 'C'");
  Schedule dynamic(test::parse(R"(
program p(A: f32[m] input, C: f32[m] output) dims(m: 1..100) {
  block root() {
    for i in 0..m {
      block C(v: spatial m = i) {
        C[v] = A[v]
      }
    }
  }
}
)"));
  EXPECT_REFUSED(dynamic.vectorize({"i"}), BadStructure, "loop 'i' has no constant extent");
  EXPECT_REFUSED(dynamic.unroll({"i"}), BadStructure, "loop 'i' has no constant extent");
}

// Each lane would need its own T.
TEST(Vectorize, PrivateBufferIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[1] global
    for i in 0..64 {
      block T(v: spatial 1 = 0, w: spatial 64 = i) {
        T[v] = A[w]
      }
      block C(v: spatial 64 = i) {
        C[v] = T[0]
      }
    }
  }
)"));
  EXPECT_REFUSED(s.vectorize({"i"}), Dependence,
                 "different iterations of loop 'i' may write the same elements of 'T'");
  s.parallel({"i"});
}

// The window of each output, copied where the output is computed: tiles of 4 over 10 outputs.
Program windows(const std::string& copied_where) {
  return parse_program(R"(
program windows(A: f32[21] input, C: f32[10] output) {
  block root() {
    alloc T: f32[21] global
    for i in 0..3 {
      for j in 0..4 {
        for a in 0..3 {
          block T(v: spatial 21 = ((((i * 4) + j) * 2) + a)) where ()" +
                       copied_where + R"() {
            T[v] = A[v]
          }
        }
        for r in 0..3 {
          block C(w: spatial 10 = ((i * 4) + j), wr: reduce 3 = r) where (((i * 4) + j) < 10) {
            init {
              C[w] = 0.0f32
            }
            C[w] = (C[w] + T[((w * 2) + wr)])
          }
        }
      }
    }
  }
}
)");
}

// The copy runs only where its reader does, so a whole tile does not copy a box. Each output's
// iteration still copies everything that it reads.
TEST(Parallel, CopiesThatRunWhereTheirReaderDoes) {
  for (const char* where : {"((i * 4) + j) < 10", "((((i * 4) + j) * 2) + a) < 21"}) {
    Program p = windows(where);
    Schedule s(p);
    s.parallel({"i"});
    EXPECT_TRUE(test::same_meaning(p, s.module()));
  }
}

TEST(Parallel, CopiesOnOtherConditionsThanTheirReaderAreRefused) {
  Schedule s(windows("((i * 4) + j) < 9"));
  EXPECT_REFUSED(s.parallel({"i"}), Dependence,
                 "an iteration of loop 'i' may read elements of 'T' that another iteration writes");
}

TEST(Unroll, AReduceLoop) {
  Schedule s(row_reduce());
  s.unroll({"k"});
  EXPECT_REWRITE(row_reduce(), s);
}

TEST(Bind, BlockAndThread) {
  Schedule s(matmul());
  s.bind({"i"}, ForKind::BlockX);
  s.bind({"j"}, ForKind::ThreadX);
  EXPECT_REWRITE(matmul(), s);
}

TEST(Bind, Refusals) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.bind({"i"}, ForKind::Parallel), BadArgument,
                 "argument 'axis' of bind: expected block_x to thread_z, or warp, got parallel");
  EXPECT_REFUSED(s.bind({"k"}, ForKind::ThreadX), Dependence, "carries the reduction");
  s.bind({"j"}, ForKind::ThreadX);
  EXPECT_REFUSED(s.bind({"i"}, ForKind::ThreadX), BadStructure,
                 "loop 'j' under loop 'i' is thread_x already");
}

TEST(Annotate, LoopAndBlock) {
  Schedule s(chain());
  s.annotate(Loop{"i"}, "note", int64_t{3});
  s.annotate(Loop{"i"}, "note", int64_t{4});
  s.annotate(Block{"C"}, "intrinsic", std::string("row"));
  EXPECT_EQ(std::get<int64_t>(s.node(Loop{"i"}).annotations.at("note")), 4);
  EXPECT_REWRITE(chain(), s);
}

TEST(Annotate, Refusals) {
  Schedule s(chain());
  EXPECT_REFUSED(s.annotate(Loop{"i"}, "", int64_t{3}), BadArgument,
                 "argument 'key' of annotate_loop: expected a name");
  EXPECT_REFUSED(s.annotate(Block{"C"}, "", int64_t{3}), BadArgument,
                 "argument 'key' of annotate_block: expected a name");
  EXPECT_REFUSED(s.annotate(Block{"X"}, "k", int64_t{3}), NotFound, "no block 'X'");
}

TEST(VectorizeReduction, MarksTheLoopAroundIt) {
  Schedule s(matmul());
  const Loop j = s.split({"j"}, {-1, 4})[1];
  s.decompose_reduction({"C"}, j);
  s.vectorize_reduction(j);
  EXPECT_REWRITE(matmul(), s);
}

TEST(VectorizeReduction, TakesTheReductionItself) {
  Schedule s(row_reduce());
  const Loop k = s.loops(s.blocks()[0]).back();
  s.decompose_reduction(s.blocks()[0], k);
  s.vectorize_reduction(k);
  EXPECT_REWRITE(row_reduce(), s);
}

TEST(VectorizeReduction, OtherLoopsAreRefused) {
  Schedule s(matmul());
  EXPECT_REFUSED(s.vectorize_reduction({"k"}), BadStructure, "has an init; decompose");
  EXPECT_REFUSED(s.vectorize_reduction({"i"}), BadStructure,
                 "under loop 'i' stands more than a loop around one block");
  Schedule swapped(matmul());
  swapped.reorder({{"k"}, {"j"}});
  swapped.decompose_reduction({"C"}, {"k"});
  EXPECT_REFUSED(swapped.vectorize_reduction({"k"}), BadStructure,
                 "loop 'j' is no reduction of block 'C'");
  Schedule three(matmul());
  const Loop j = three.split({"j"}, {-1, 3})[1];
  three.decompose_reduction({"C"}, j);
  EXPECT_REFUSED(three.vectorize_reduction(j), BadStructure,
                 "does not hold a power of two of results of block 'C'");
  three.unroll({"k"});
  EXPECT_REFUSED(three.vectorize_reduction({"k"}), BadStructure, "loop 'k' is already unrolled");
}

// Later steps keep a marked loop legal.
TEST(VectorizeReduction, StaysWhatItIs) {
  Schedule s(matmul());
  s.decompose_reduction({"C"}, {"j"});
  EXPECT_REFUSED(s.vectorize({"k"}), Dependence, "carries the reduction of block 'C'");
  s.vectorize_reduction({"k"});
  EXPECT_REFUSED(s.vectorize_reduction({"k"}), BadStructure, "loop 'k' is already vectorized");
  s.parallel({"i"});
  EXPECT_REWRITE(matmul(), s);
}

}  // namespace
}  // namespace tilewright
