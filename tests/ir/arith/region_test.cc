#include <gtest/gtest.h>

#include <random>

#include "ir/arith/interval.h"
#include "ir/arith/simplify.h"
#include "ir/buffer.h"
#include "ir/text/printer.h"
#include "tests/ir/arith/arith_support.h"

namespace tilewright {
namespace {

using Ranges = std::map<const ExprNode*, Range>;

std::string text(const Region& region) {
  std::string result;
  for (const Range& r : region) {
    result += (result.empty() ? "" : ", ") + to_string(r.min) + " + " + to_string(r.extent);
  }
  return result;
}

class Cover : public ::testing::Test {
 protected:
  std::string cover_of(const Expr& index, const Expr& size = Expr(1000)) {
    return text(cover({index}, {size}, vars));
  }
  void range(const Var& var, const Expr& min, const Expr& extent) {
    vars[var.get()] = {min, extent};
  }

  Var h0{"h0"}, h{"h"}, r{"r"}, i0{"i0"}, i1{"i1"}, n{"n"};
  Ranges vars;
};

TEST_F(Cover, ConvolutionWindowsAreTight) {
  range(h, h0 * 4, 4);
  range(r, 0, 3);
  EXPECT_EQ(cover_of(h * 2 + r), "(h0 * 8) + 9");
  EXPECT_EQ(cover_of(h * 2 + r - Expr(1)), "((h0 * 8) - 1) + 9");
}

TEST_F(Cover, ConstantBoxesAreClippedToTheBuffer) {
  range(h, 0, 56);
  range(r, 0, 3);
  EXPECT_EQ(cover_of(h + r - Expr(1), 56), "0 + 56");
  EXPECT_EQ(cover_of(h + r - Expr(1), 57), "0 + 57");
  EXPECT_EQ(cover_of(h + r + Expr(5), 60), "5 + 55");
}

TEST_F(Cover, VariablesThatAreNotCoveredStay) {
  range(i1, 0, 16);
  EXPECT_EQ(cover_of(i0 * 16 + i1), "(i0 * 16) + 16");
  EXPECT_EQ(cover_of(i0 * 16 - i1), "((i0 * 16) - 15) + 16");
  EXPECT_EQ(cover_of(i0), "i0 + 1");
}

TEST_F(Cover, RangesMaySpeakOfEachOther) {
  range(h, i1, 4);
  range(i1, i0 * 8, 8);
  EXPECT_EQ(cover_of(h), "(i0 * 8) + 11");
  EXPECT_EQ(cover_of(h - i1), "0 + 4");
}

TEST_F(Cover, FloorsOfSplitLoops) {
  range(i1, 0, 16);
  EXPECT_EQ(cover_of(floordiv(i0 * 16 + i1, 4)), "(i0 * 4) + 4");
  EXPECT_EQ(cover_of(floormod(i0 * 16 + i1, 64)), "(floormod(i0, 4) * 16) + 16");
  EXPECT_EQ(cover_of(floormod(i0 * 3 + i1, 8)), "0 + 8");
  EXPECT_EQ(cover_of(floordiv(i0 * 6 + i1, 4)), "(i0 + floordiv(i0, 2)) + 5");
}

TEST_F(Cover, TailsOfSplitLoopsGiveConstantExtents) {
  range(i1, 0, min(Expr(16), Expr(127) - i0 * 16));
  EXPECT_EQ(cover_of(i0 * 16 + i1), "(i0 * 16) + 16");
  range(i0, 0, 8);
  EXPECT_EQ(cover_of(i0 * 16 + i1, 127), "0 + 127");
}

TEST_F(Cover, SymbolicExtentsStaySymbolic) {
  range(i1, 0, n);
  EXPECT_EQ(cover_of(i1, n), "0 + n");
  EXPECT_EQ(cover_of(i0 * 2 + i1), "(i0 * 2) + n");
}

TEST_F(Cover, IndicesThatAreNotAffineTakeTheWholeDimension) {
  Buffer index = make_buffer("index", ElemType::i32, {8});
  range(i1, 0, 8);
  EXPECT_EQ(cover_of(cast(ElemType::index, load(index, {i1})), 30), "0 + 30");
  EXPECT_EQ(cover_of(i1 * i1, 30), "0 + 30");
}

// Every index taken lies in the box. An affine index reaches both ends.
TEST_F(Cover, HoldsEveryIndexAndIsTightForAffineOnes) {
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    test::ExprGenerator generator(seed);
    bool affine = seed % 2 == 0;
    const auto& all = generator.vars();
    Expr index = generator.number(-5, 5);
    for (const auto& v : all) index = index + v.var * Expr(generator.number(-3, 8));
    if (!affine) index = generator.index(3);
    // The last two variables are outer ones.
    Ranges inner;
    for (size_t i = 0; i < 2; ++i)
      inner[all[i].var.get()] = {Expr(all[i].min), Expr(all[i].extent)};
    constexpr int64_t kSize = 1'000'000, kShift = 1000;
    Region box = cover({index + Expr(kShift)}, {Expr(kSize)}, inner);
    test::Assignment values = generator.assignment();
    int64_t low = test::value_of(box[0].min, values);
    int64_t extent = test::value_of(box[0].extent, values);
    bool is_whole = low == 0 && extent == kSize;
    int64_t least = kSize, most = -1;
    for (int64_t a = 0; a < all[0].extent; ++a) {
      for (int64_t b = 0; b < all[1].extent; ++b) {
        values[all[0].var.get()] = all[0].min + a;
        values[all[1].var.get()] = all[1].min + b;
        int64_t taken = test::value_of(index, values) + kShift;
        least = std::min(least, taken);
        most = std::max(most, taken);
      }
    }
    std::string what =
        "seed " + std::to_string(seed) + ": " + to_string(index) + " in " + text(box);
    if (most < kSize && least >= 0) {
      EXPECT_LE(low, least) << what;
      EXPECT_GE(low + extent - 1, most) << what;
    }
    if (!affine) continue;
    EXPECT_FALSE(is_whole) << what;
    EXPECT_EQ(low, least) << what;
    EXPECT_EQ(low + extent - 1, most) << what;
  }
}

class AccessesOf : public ::testing::Test {
 protected:
  static std::string describe(const std::vector<BufferRegion>& regions) {
    std::string result;
    for (const BufferRegion& r : regions) {
      result += (result.empty() ? "" : "; ") + r.buffer->name + "[" + text(r.region) + "]";
    }
    return result;
  }
  Stmt loop(const Var& var, const Expr& extent, const Stmt& body) {
    return make_for(var, 0, extent, ForKind::Serial, body);
  }

  Buffer a = make_buffer("A", ElemType::f32, {64, 32}),
         b = make_buffer("B", ElemType::f32, {32, 48}),
         c = make_buffer("C", ElemType::f32, {64, 48});
  Var i{"i"}, j{"j"}, k{"k"}, vi{"vi"}, vj{"vj"}, vk{"vk"};

  // The block of a matmul with its iterators bound to the given expressions.
  Stmt matmul(const Expr& bi, const Expr& bj, const Expr& bk) {
    Stmt body = make_store(c, {vi, vj}, load(c, {vi, vj}) + load(a, {vi, vk}) * load(b, {vk, vj}));
    Stmt init = make_store(c, {vi, vj}, make_float(ElemType::f32, 0));
    std::vector<IterVar> iters = {{vi, 64, IterKind::Spatial, bi},
                                  {vj, 48, IterKind::Spatial, bj},
                                  {vk, 32, IterKind::Reduce, bk}};
    return make_block("C", iters, body, init);
  }
};

TEST_F(AccessesOf, LoopsInsideAreCoveredAndOuterOnesStay) {
  Var i0("i0");
  Stmt s = loop(i, 8, loop(k, 32, matmul(i0 * 8 + i, j, k)));
  Accesses found = accesses(s);
  EXPECT_EQ(describe(found.reads),
            "C[(i0 * 8) + 8, j + 1]; A[(i0 * 8) + 8, 0 + 32]; B[0 + 32, j + 1]");
  EXPECT_EQ(describe(found.writes), "C[(i0 * 8) + 8, j + 1]");
}

TEST_F(AccessesOf, AccessesOfOneBufferUnite) {
  Buffer x = make_buffer("X", ElemType::f32, {100}), y = make_buffer("Y", ElemType::f32, {100});
  Stmt s =
      loop(i, 4, make_store(y, {j * 4 + i}, load(x, {j * 4 + i}) + load(x, {j * 4 + i + Expr(2)})));
  EXPECT_EQ(describe(accesses(s).reads), "X[(j * 4) + 6]");
  Stmt apart = make_store(y, {i}, load(x, {i}) + load(x, {j}));
  EXPECT_EQ(describe(accesses(apart).reads), "X[0 + 100]") << "which is first is not known";
}

TEST_F(AccessesOf, BuffersAllocatedInsideAreLeftOut) {
  Buffer t = make_buffer("T", ElemType::f32, {4}, Scope::Local);
  Buffer x = make_buffer("X", ElemType::f32, {4});
  Stmt copy = loop(i, 4, make_store(t, {i}, load(x, {i})));
  Stmt back = loop(j, 4, make_store(x, {j}, load(t, {j})));
  Accesses lowered = accesses(make_allocate(t, make_seq({copy, back})));
  EXPECT_EQ(describe(lowered.reads), "X[0 + 4]");
  EXPECT_EQ(describe(lowered.writes), "X[0 + 4]");
  Accesses block = accesses(make_block("root", {}, make_seq({copy, back}), {}, {}, {t}));
  EXPECT_EQ(describe(block.reads), "X[0 + 4]");
}

TEST_F(AccessesOf, VectorsAndLetsAreOpened) {
  Buffer x = make_buffer("X", ElemType::f32, {256}), y = make_buffer("Y", ElemType::f32, {256});
  Var base("base");
  Expr index = ramp(base, 2, 8);
  Stmt s = make_let(base, j * 16, make_store(y, {index}, load(x, {index + broadcast(1, 8)})));
  Accesses found = accesses(s);
  EXPECT_EQ(describe(found.writes), "Y[(j * 16) + 15]");
  EXPECT_EQ(describe(found.reads), "X[((j * 16) + 1) + 15]");
}

TEST_F(AccessesOf, GathersReadTheirIndexAndTheWholeTable) {
  Buffer rows = make_buffer("rows", ElemType::i32, {16}),
         x = make_buffer("X", ElemType::f32, {9, 4});
  Buffer y = make_buffer("Y", ElemType::f32, {16, 4});
  Expr row = cast(ElemType::index, load(rows, {i}));
  Stmt s = loop(j, 4, make_store(y, {i, j}, load(x, {row, j})));
  EXPECT_EQ(describe(accesses(s).reads), "rows[i + 1]; X[0 + 9, 0 + 4]");
}

TEST_F(AccessesOf, PrefetchedElementsAreNotRead) {
  Buffer x = make_buffer("X", ElemType::f32, {16});
  Stmt s = make_evaluate(call(ElemType::boolean, CallOp::Prefetch, {load(x, {i}), Expr(3)}));
  EXPECT_TRUE(accesses(s).reads.empty());
}

// Memory from the first element on is copied, so the whole array counts.
TEST_F(AccessesOf, ACopyReadsAndWritesFromItsElementsOn) {
  Buffer x = make_buffer("X", ElemType::u8, {64}), ring = make_buffer("S", ElemType::u8, {2, 32});
  Buffer barriers = make_buffer("B", ElemType::u64, {2});
  Stmt s =
      make_evaluate(call(ElemType::boolean, CallOp::BulkLoad,
                         {load(ring, {1, i}), load(x, {i}), Expr(16), load(barriers, {Expr(1)})}));
  EXPECT_EQ(describe(accesses(s).reads), "X[0 + 64]; B[1 + 1]");
  EXPECT_EQ(describe(accesses(s).writes), "S[0 + 2, 0 + 32]; B[1 + 1]");
}

TEST_F(AccessesOf, ATensorMapReachesItsWholeOperand) {
  Buffer x = make_buffer("X", ElemType::f16, {64, 8}), tile = make_buffer("S", ElemType::f16, {16});
  const std::vector<Expr> box = {i, 0, 64, 8, 2, 8};
  std::vector<Expr> args = {load(tile, {0}), load(x, {0, 0})};
  args.insert(args.end(), box.begin(), box.end());
  Stmt s = make_evaluate(call(ElemType::boolean, CallOp::TensorStore, args));
  EXPECT_EQ(describe(accesses(s).reads), "S[0 + 16]");
  EXPECT_EQ(describe(accesses(s).writes), "X[0 + 64, 0 + 8]");
  args = {load(tile, {0}), load(x, {0, 0}), load(make_buffer("B", ElemType::u64, {2}), {1}), 1};
  args.insert(args.end(), box.begin(), box.end());
  s = make_evaluate(call(ElemType::boolean, CallOp::TensorLoad, args));
  EXPECT_EQ(describe(accesses(s).reads), "X[0 + 64, 0 + 8]; B[1 + 1]");
  EXPECT_EQ(describe(accesses(s).writes), "S[0 + 16]; B[1 + 1]");
}

}  // namespace
}  // namespace tilewright
