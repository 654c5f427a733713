#include "schedule/primitives/loops/reduction.h"

#include "tests/golden.h"
#include "tests/schedule/support.h"

namespace tilewright {
namespace {

using test::chain;
using test::matmul;
using test::row_reduce;

TEST(DecomposeReduction, AtTheReduceLoop) {
  Schedule s(matmul());
  EXPECT_EQ(s.decompose_reduction({"C"}, {"k"}), Block{"C_init"});
  EXPECT_REWRITE(matmul(), s);
}

TEST(DecomposeReduction, OfATiledBlockCopiesTheSpatialLoops) {
  Schedule s(matmul(30, 16, 7));
  std::array<Loop, 4> t = s.tile({"i"}, {"j"}, 8, 4);
  std::vector<Loop> k = s.split({"k"}, {-1, 4});
  s.reorder({k[0], t[2], k[1], t[3]});
  s.unroll(t[2]);
  s.vectorize(t[3]);
  s.decompose_reduction({"C"}, k[0]);
  EXPECT_EQ(s.loops({"C_init"}), (std::vector<Loop>{{"i_0"}, {"j_0"}, {"i_1_init"}, {"j_1_init"}}));
  EXPECT_EQ(s.node(Loop{"j_1_init"}).for_kind, ForKind::Vectorized);
  EXPECT_REWRITE(matmul(30, 16, 7), s);
}

TEST(DecomposeReduction, AtASpatialLoop) {
  Schedule s(row_reduce("max"));
  s.decompose_reduction({"S"}, {"i"});
  EXPECT_REWRITE(row_reduce("max"), s);
}

TEST(DecomposeReduction, Refusals) {
  Schedule two(chain());
  EXPECT_REFUSED(two.decompose_reduction({"C"}, {"i_1"}), BadStructure, "block 'C' has no init");
  Schedule s(matmul());
  std::vector<Loop> k = s.split({"k"}, {2, 4});
  EXPECT_REFUSED(s.decompose_reduction({"C"}, k[1]), Dependence,
                 "the reduction of block 'C' starts in loop 'k_0', outside of loop 'k_1'");
  EXPECT_REFUSED(s.decompose_reduction({"C"}, {"x"}), NotFound, "no loop 'x'");
  s.decompose_reduction({"C"}, k[0]);
  EXPECT_REFUSED(s.decompose_reduction({"C"}, k[0]), BadStructure, "block 'C' has no init");
  Schedule mixed(matmul());
  Loop fused = mixed.fuse({{"j"}, {"k"}});
  EXPECT_REFUSED(mixed.decompose_reduction({"C"}, fused), Unsupported,
                 "loop 'j_k_fused' takes part in spatial and reduce iterators of block 'C'");
}

TEST(DecomposeReduction, OfAnotherNestIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[64] global
    for j in 0..64 {
      block T(v: spatial 64 = j) {
        T[v] = A[v]
      }
    }
    for k in 0..64 {
      block C(v: spatial 64 = 0, vk: reduce 64 = k) {
        init {
          C[v] = 0.0f32
        }
        C[v] = (C[v] + T[vk])
      }
    }
  }
)"));
  EXPECT_REFUSED(s.decompose_reduction({"C"}, {"j"}), BadStructure,
                 "loop 'j' does not stand around block 'C'");
}

// Each iteration of r computes the whole of C. A single init for all of them would add them up.
TEST(DecomposeReduction, RepeatedReductionIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    for r in 0..2 {
      for k in 0..64 {
        block C(v: spatial 64 = 0, vk: reduce 64 = k) {
          init {
            C[v] = 0.0f32
          }
          C[v] = (C[v] + A[vk])
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.decompose_reduction({"C"}, {"r"}), Dependence,
                 "loop 'r' may repeat iterations of block 'C', which need an init of their own");
}

TEST(DecomposeReduction, UnderAConditionIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    for k in 0..64 {
      if (k < 32) {
        block C(v: spatial 64 = 0, vk: reduce 64 = k) {
          init {
            C[v] = 0.0f32
          }
          C[v] = (C[v] + A[vk])
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.decompose_reduction({"C"}, {"k"}), Unsupported,
                 "block 'C' stands under a condition");
}

TEST(Rfactor, OuterLoopOfASplitSum) {
  Schedule s(row_reduce());
  std::vector<Loop> k = s.split({"k"}, {4, 5});
  EXPECT_EQ(s.rfactor({"S"}, k[0], 0), Block{"S_rf"});
  s.parallel({"k_0"});
  EXPECT_REWRITE(row_reduce(), s);
}

TEST(Rfactor, InnerLoopOfAMax) {
  Schedule s(row_reduce("max"));
  std::vector<Loop> k = s.split({"k"}, {5, 4});
  s.rfactor({"S"}, k[1], -1);
  s.vectorize({"k_1"});
  EXPECT_REWRITE(row_reduce("max"), s);
}

// Some partial results have no term and must hold the identity.
TEST(Rfactor, WithARemainder) {
  Schedule s(row_reduce("min", 6, 17));
  std::vector<Loop> k = s.split({"k"}, {4, 8});
  s.rfactor({"S"}, k[0], 1);
  EXPECT_REWRITE(row_reduce("min", 6, 17), s);
}

TEST(Rfactor, TheWholeReduction) {
  Schedule s(matmul(6, 4, 8));
  s.rfactor({"C"}, {"k"}, 1);
  EXPECT_FALSE(s.node(Block{"C_rf"}).init.defined());
  EXPECT_REWRITE(matmul(6, 4, 8), s);
}

TEST(Rfactor, Refusals) {
  Schedule two(chain());
  EXPECT_REFUSED(two.rfactor({"C"}, {"i_1"}, 0), BadStructure,
                 "block 'C' is not a reduction by a sum, max or min from its identity");
  Schedule s(matmul());
  EXPECT_REFUSED(s.rfactor({"C"}, {"i"}, 0), BadStructure,
                 "loop 'i' takes no part in the reduction of block 'C'");
  EXPECT_REFUSED(s.rfactor({"C"}, {"k"}, 3), BadArgument,
                 "argument 'factor_axis' of rfactor: expected -3 to 2, got 3");
  EXPECT_REFUSED(s.rfactor({"C"}, {"k"}, -4), BadArgument, "expected -3 to 2, got -4");
  Loop fused = s.fuse({{"j"}, {"k"}});
  EXPECT_REFUSED(s.rfactor({"C"}, fused, 0), Unsupported, "takes part in spatial and reduce");
}

TEST(Rfactor, BranchingNestIsRefused) {
  Schedule s(test::parse(R"(
  block root() {
    alloc T: f32[8] global
    for i in 0..8 {
      for k in 0..8 {
        block T(v: spatial 8 = i, vk: reduce 8 = k) {
          init {
            T[v] = 0.0f32
          }
          T[v] = (T[v] + A[((v * 8) + vk)])
        }
      }
      block C(v: spatial 64 = i) {
        C[v] = T[v]
      }
    }
  }
)"));
  EXPECT_REFUSED(s.rfactor({"T"}, {"k"}, 0), BadStructure, "the nest around block 'T' branches");
}

TEST(Rfactor, LoopsThatDoNotBeginAtZeroAreRefused) {
  Schedule s(test::parse(R"(
program p(A: f32[8, 6] input, C: f32[8] output) {
  block root() {
    for i in 0..8 {
      for k in 1..7 {
        block C(vi: spatial 8 = i, vk: reduce 6 = (k - 1)) {
          init {
            C[vi] = 0.0f32
          }
          C[vi] = (C[vi] + A[vi, vk])
        }
      }
    }
  }
}
)"));
  EXPECT_REFUSED(s.rfactor({"C"}, {"k"}, 0), Unsupported,
                 "loop 'k' does not run from 0 to an extent of its own");
}

TEST(PadEinsum, BodiesOfMoreThanAStoreAreRefused) {
  Schedule s(test::parse(R"(
  block root() {
    for i in 0..60 {
      block C(v: spatial 60 = i) {
        if (v < 30) {
          C[v] = A[v]
        } else {
          C[v] = 0.0f32
        }
      }
    }
  }
)"));
  EXPECT_REFUSED(s.pad_einsum({"C"}, {16}), Unsupported, "block 'C' is more than one store");
}

TEST(PadEinsum, AllIterators) {
  Schedule s(matmul(30, 16, 6));
  s.pad_einsum({"C"}, {16, 16, 4});
  EXPECT_EQ(s.trace().steps[0].results, (std::vector<std::string>{"A_pad", "B_pad", "C_unpad"}));
  EXPECT_REWRITE(matmul(30, 16, 6), s);
}

TEST(PadEinsum, MultiplesThatDivideChangeNothing) {
  Schedule s(matmul(32, 16, 8));
  Stmt before = s.program().body;
  s.pad_einsum({"C"}, {16, 16, 4});
  EXPECT_TRUE(before.same_as(s.program().body));
}

TEST(PadEinsum, SpatialPaddingOfAnyReduction) {
  Schedule s(row_reduce("max", 6, 20));
  s.pad_einsum({"S"}, {4, 1});
  EXPECT_REWRITE(row_reduce("max", 6, 20), s);
}

TEST(PadEinsum, DynamicExtent) {
  Program p = test::parse(R"(
program p(A: f32[m, 6] input, B: f32[6, 5] weight, C: f32[m, 5] output) dims(m: 1..40) {
  block root() {
    for i in 0..m {
      for j in 0..5 {
        for k in 0..6 {
          block C(vi: spatial m = i, vj: spatial 5 = j, vk: reduce 6 = k) {
            init {
              C[vi, vj] = 0.0f32
            }
            C[vi, vj] = (C[vi, vj] + (A[vi, vk] * B[vk, vj]))
          }
        }
      }
    }
  }
}
)");
  Schedule s(p);
  s.pad_einsum({"C"}, {8, 4, 4});
  EXPECT_GOLDEN(test::before_and_after(p, s));
  for (int64_t m : {1, 8, 29}) EXPECT_TRUE(test::same_meaning(p, s.module(), {{"m", m}}));
}

// B is longer than the part that is summed: the padding must be zero, not the rest of B.
TEST(PadEinsum, BuffersLargerThanWhatIsUsed) {
  Program p = test::parse(R"(
program p(A: f32[7, 5] input, B: f32[8, 10] input, C: f32[7, 10] output) {
  block root() {
    alloc T: f32[9, 10] global
    for i in 0..7 {
      for j in 0..10 {
        for k in 0..5 {
          block T(vi: spatial 7 = i, vj: spatial 10 = j, vk: reduce 5 = k) {
            init {
              T[vi, vj] = 0.0f32
            }
            T[vi, vj] = (T[vi, vj] + ((A[vi, vk] * B[vk, vj]) * B[vk, vk]))
          }
        }
      }
    }
    for i_1 in 0..7 {
      for j_1 in 0..10 {
        block C(wi: spatial 7 = i_1, wj: spatial 10 = j_1) {
          C[wi, wj] = T[wi, wj]
        }
      }
    }
  }
}
)");
  Schedule s(p);
  s.pad_einsum({"T"}, {8, 4, 4});
  EXPECT_REWRITE(p, s);
}

TEST(PadEinsum, Refusals) {
  Schedule s(matmul());
  const char* expected = "argument 'multiples' of pad_einsum: expected 3 integers of 1 or more";
  EXPECT_REFUSED(s.pad_einsum({"C"}, {16, 16}), BadArgument, expected);
  EXPECT_REFUSED(s.pad_einsum({"C"}, {16, 16, 0}), BadArgument, expected);
  Schedule max(row_reduce("max"));
  EXPECT_REFUSED(max.pad_einsum({"S"}, {1, 16}), Unsupported,
                 "block 'S' is no sum of products that read along 'vk': zeros in the padding "
                 "would change its result");
  Schedule split(matmul());
  split.split({"i"}, {5, 6});
  EXPECT_REFUSED(split.pad_einsum({"C"}, {16, 16, 1}), BadStructure,
                 "the iterators of block 'C' are not each a serial loop of a lone nest");
  Schedule guarded(matmul());
  guarded.split({"i"}, {4, 8});
  EXPECT_REFUSED(guarded.pad_einsum({"C"}, {16, 16, 1}), BadStructure,
                 "block 'C' has a predicate; pad it before it is scheduled");
}

TEST(PadEinsum, BlocksUnderWayAreRefused) {
  Schedule decomposed(matmul());
  decomposed.decompose_reduction({"C"}, {"i"});
  EXPECT_REFUSED(decomposed.pad_einsum({"C"}, {16, 16, 1}), BadStructure,
                 "block 'C' updates 'C', whose init stands elsewhere");
  Schedule inner(matmul());
  inner.decompose_reduction({"C"}, {"k"});
  EXPECT_REFUSED(inner.pad_einsum({"C"}, {16, 16, 1}), BadStructure, "of a lone nest");
}

TEST(PadEinsum, OperandsUnderTheBlocksLoopsAreRefused) {
  for (const char* loop : {"i", "j", "k"}) {
    Schedule s(matmul());
    Block copy = s.cache_read({"C"}, "A", Scope::Local);
    s.compute_at(copy, {loop});
    EXPECT_REFUSED(s.pad_einsum({"C"}, {16, 16, 1}), BadStructure, "of a lone nest");
  }
  Schedule s(matmul());
  s.reverse_compute_at(s.cache_write({"C"}, "C", Scope::Local), {"j"});
  EXPECT_REFUSED(s.pad_einsum({"C"}, {16, 16, 1}), BadStructure, "of a lone nest");
}

// A row of one column, stored without an index for the column: all padding columns would be stored
// into it.
TEST(PadEinsum, IteratorsThatAreNoIndexOfTheResultAreRefused) {
  Schedule s(test::parse(R"(
program p(A: f32[7, 5] input, B: f32[5, 1] weight, C: f32[7] output) {
  block root() {
    for i in 0..7 {
      for j in 0..1 {
        for k in 0..5 {
          block C(vi: spatial 7 = i, vj: spatial 1 = j, vk: reduce 5 = k) {
            init {
              C[vi] = 0.0f32
            }
            C[vi] = (C[vi] + (A[vi, vk] * B[vk, vj]))
          }
        }
      }
    }
  }
}
)"));
  EXPECT_REFUSED(s.pad_einsum({"C"}, {1, 4, 1}), Unsupported,
                 "no index of 'C' in block 'C' is 'vj': its padding would be stored "
                 "into elements that are in use");
  s.pad_einsum({"C"}, {4, 1, 4});
}

TEST(PadEinsum, FactorsThatAreNotZeroInThePaddingAreRefused) {
  Schedule s(test::parse(R"(
program p(A: f32[5] input, B: f32[1] input, C: f32[1] output) {
  block root() {
    for k in 0..5 {
      for i in 0..1 {
        block C(vi: spatial 1 = i, vk: reduce 5 = k) {
          init {
            C[vi] = 0.0f32
          }
          C[vi] = (C[vi] + (A[vk] * B[vi]))
        }
      }
    }
  }
}
)"));
  EXPECT_REFUSED(s.pad_einsum({"C"}, {1, 4}), Unsupported, "no sum of products that read along");
}

TEST(PadEinsum, SumsOfIteratorsAreRefused) {
  Schedule s(test::parse(R"(
program p(A: f32[64] input, C: f32[60] output) {
  block root() {
    for i in 0..60 {
      for r in 0..5 {
        block C(vi: spatial 60 = i, vr: reduce 5 = r) {
          init {
            C[vi] = 0.0f32
          }
          C[vi] = (C[vi] + A[(vi + vr)])
        }
      }
    }
  }
}
)"));
  EXPECT_REFUSED(s.pad_einsum({"C"}, {16, 1}), Unsupported,
                 "an index of 'A' in block 'C' is more than a padded iterator");
}

// Y[i] += A[i * 2 + k] * B[k], where A is read beyond the window and B is padded.
std::string window_of(const std::string& type, const std::string& index) {
  return "program p(A: " + type + "[11] input, B: " + type + "[3] input, Y: " + type +
         R"([5] output) {
  block root() {
    for i in 0..5 { for k in 0..3 {
      block Y(vi: spatial 5 = i, vk: reduce 3 = k) {
        init { Y[vi] = 0)" +
         (type == "f32" ? ".0f32" : type) + R"( }
        Y[vi] = Y[vi] + A[)" +
         index + R"(] * B[vk]
      }
    }}
  }
})";
}

TEST(PadEinsum, IntegersAreReadBeyondTheirWindow) {
  Program before = test::parse(window_of("i32", "vi * 2 + vk"));
  Schedule s(before);
  s.pad_einsum({"Y"}, {1, 4});
  EXPECT_TRUE(test::same_meaning(before, s.module()));
  EXPECT_TRUE(test::replays(before, s));
  EXPECT_EQ(s.blocks().size(), 3u) << "A is long enough; B is padded, the result copied by none";
  s = Schedule(before);
  s.pad_einsum({"Y"}, {1, 8});
  EXPECT_TRUE(test::same_meaning(before, s.module()));
  EXPECT_EQ(as_int(s.node(Block{"A_pad"}).iters[0].extent), 16);
}

TEST(PadEinsum, WindowsOfFloatsAreRefused) {
  Schedule s(test::parse(window_of("f32", "vi * 2 + vk")));
  EXPECT_REFUSED(s.pad_einsum({"Y"}, {1, 4}), Unsupported,
                 "an index of 'A' in block 'Y' is more than a padded iterator");
  Schedule looked_up(test::parse(window_of("i32", "vi * 2 + cast<index>(B[vk]) * 0 + vk")));
  EXPECT_REFUSED(looked_up.pad_einsum({"Y"}, {1, 4}), Unsupported,
                 "an index of 'A' in block 'Y' is more than a padded iterator");
  Schedule back(test::parse(window_of("i32", "vi * 2 + 2 - vk")));
  EXPECT_REFUSED(back.pad_einsum({"Y"}, {1, 4}), Unsupported,
                 "an index of 'A' in block 'Y' is more than a padded iterator");
}

TEST(PadEinsum, IntegerDivisionIsRefused) {
  Schedule s(test::parse(R"(
program p(A: i32[5] input, C: i32[5] output) {
  block root() {
    for i in 0..5 {
      block C(vi: spatial 5 = i) {
        C[vi] = floordiv(7i32, A[vi])
      }
    }
  }
}
)"));
  EXPECT_REFUSED(s.pad_einsum({"C"}, {4}), Unsupported,
                 "block 'C' divides integers, and the padding may be a divisor");
}

}  // namespace
}  // namespace tilewright
