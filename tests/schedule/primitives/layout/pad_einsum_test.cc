// Padding of a block whose operands are longer than needed.
#include "schedule/primitives/loops/reduction.h"

#include "tests/schedule/support.h"

namespace tilewright {
namespace {

// C[i, j] = the sum of A[i, k] * B[k, j], over ten columns only.
Program sum_of_ten_columns(const std::string& params, const std::string& before) {
  return test::parse("\nprogram p(A: f32[7, 6] input, " + params + R"(, C: f32[7, 10] output) {
  block root() {
)" + before + R"(    for i in 0..7 {
      for j in 0..10 {
        for k in 0..6 {
          block C(vi: spatial 7 = i, vj: spatial 10 = j, vk: reduce 6 = k) {
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
}

// The columns after them exist, so nothing is copied.
TEST(PadEinsum, ReadsOnWhatIsLongEnough) {
  Program p = sum_of_ten_columns("B: f32[6, 16] weight", "");
  Schedule s(p);
  s.pad_einsum({"C"}, {1, 16, 1});
  EXPECT_EQ(s.trace().steps[0].results, (std::vector<std::string>{"C_unpad"}));
  EXPECT_TRUE(test::same_meaning(p, s.module()));
  // Along a reduction they would count, and elements that nobody writes have no values.
  Schedule along(p);
  along.pad_einsum({"C"}, {1, 16, 4});
  EXPECT_EQ(along.trace().steps[0].results,
            (std::vector<std::string>{"A_pad", "B_pad", "C_unpad"}));
  EXPECT_TRUE(test::same_meaning(p, along.module()));
  Program written = sum_of_ten_columns("X: f32[6, 10] weight", R"(    alloc B: f32[6, 16] global
    for r in 0..6 {
      for c in 0..10 {
        block B(vr: spatial 6 = r, vc: spatial 10 = c) {
          B[vr, vc] = X[vr, vc]
        }
      }
    }
)");
  Schedule partly(written);
  partly.pad_einsum({"C"}, {1, 16, 1});
  EXPECT_EQ(partly.trace().steps[0].results, (std::vector<std::string>{"B_pad", "C_unpad"}));
  EXPECT_TRUE(test::same_meaning(written, partly.module()));
}

// Integers may be read beyond their window where another factor has zeros. The padding of a layout
// may not be read, as it has no values.
TEST(PadEinsum, ReadsBeyondWindowsNoPaddingOfALayout) {
  const Program p = test::parse(R"(
program p(A: i8[2, 11] input, B: i8[11, 4] weight, C: i32[2, 4] output) {
  block root() {
    alloc V: i32[11, 4] global
    for r in 0..11 { for c in 0..4 {
      block V(vr: spatial 11 = r, vc: spatial 4 = c) { V[vr, vc] = cast<i32>(B[vr, vc]) }
    }}
    for i in 0..2 { for j in 0..4 { for k in 0..11 {
      block C(vi: spatial 2 = i, vj: spatial 4 = j, vk: reduce 11 = k) {
        init { C[vi, vj] = 0i32 }
        C[vi, vj] = C[vi, vj] + cast<i32>(A[vi, vk]) * V[vk, vj]
      }
    }}}
  }
})");
  Schedule s(p);
  s.transform_layout("V", IndexMap::parse("(k, j) -> (floordiv(k, 5), floormod(k, 5), j)"));
  EXPECT_REFUSED(s.pad_einsum({"C"}, {1, 1, 4}), Unsupported,
                 "an index of 'V' in block 'C' is more than a padded iterator");
  Schedule first(p);
  first.pad_einsum({"C"}, {1, 1, 4});
  EXPECT_TRUE(test::same_meaning(p, first.module()));
}

// A diagonal does not cover a square.
TEST(PadEinsum, CopiesWhatOneBlockWritesInPart) {
  const Program p = test::parse(R"(
program p(A: f32[2, 6] input, X: f32[6] weight, C: f32[2, 1] output) {
  block root() {
    alloc B: f32[6, 6] global
    for r in 0..6 { block B(vr: spatial 6 = r) { B[vr, vr] = X[vr] } }
    for i in 0..2 { for j in 0..1 { for k in 0..1 {
      block C(vi: spatial 2 = i, vj: spatial 1 = j, vk: reduce 1 = k) {
        init { C[vi, vj] = 0.0f32 }
        C[vi, vj] = C[vi, vj] + A[vi, vj] * B[0, vj]
      }
    }}}
  }
})");
  Schedule s(p);
  s.pad_einsum({"C"}, {1, 4, 1});
  EXPECT_TRUE(test::same_meaning(p, s.module()));
}

// A copy into a longer buffer has iterators of the buffer's extents but runs over fewer values. The
// rest has no values.
TEST(PadEinsum, ReadsOnNoFurtherThanItsWriterRuns) {
  auto written_by = [](const std::string& loop) {
    return sum_of_ten_columns("X: f32[6, 16] weight", R"(    alloc B: f32[6, 16] global
    for r in 0..6 {
      for c in 0..)" + loop + R"( {
        block B(vr: spatial 6 = r, vc: spatial 16 = c) {
          B[vr, vc] = X[vr, vc]
        }
      }
    }
)");
  };
  Program part = written_by("10"), whole = written_by("16");
  Schedule partly(part);
  partly.pad_einsum({"C"}, {1, 16, 1});
  EXPECT_EQ(partly.trace().steps[0].results, (std::vector<std::string>{"B_pad", "C_unpad"}));
  EXPECT_TRUE(test::same_meaning(part, partly.module()));
  // When it covers everything, even in pieces, nothing is copied.
  Schedule wholly(whole);
  wholly.split({"c"}, {4, 4});
  wholly.pad_einsum({"C"}, {1, 16, 1});
  EXPECT_EQ(wholly.trace().steps[1].results, (std::vector<std::string>{"C_unpad"}));
  EXPECT_TRUE(test::same_meaning(whole, wholly.module()));
}

}  // namespace
}  // namespace tilewright
