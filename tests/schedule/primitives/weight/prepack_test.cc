#include "schedule/primitives/weight/prepack.h"

#include "ir/interpreter/interpreter.h"
#include "schedule/tree.h"
#include "tests/golden.h"
#include "tests/schedule/programs.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

IndexMap map_prepack(const std::string& text) { return IndexMap::parse(text); }

const char kColumns[] = "(k, j) -> (floordiv(j, 8), k, floormod(j, 8))";

TEST(Prepack, LaysAWeightOutInColumnBlocks) {
  RewriteCase c(kMatmulBias);
  c.s.prepack("B", map_prepack(kColumns));
  EXPECT_GOLDEN(c.str());
  c.check();
}

TEST(Prepack, NeedsNoGuardWhereTheImageIsExact) {
  RewriteCase c(kMatmulBias);
  c.s.prepack("B", map_prepack("(k, j) -> (floordiv(j, 4), k, floormod(j, 4))"));
  const Program& pack = c.s.module().packs.at(0);
  auto* block = leaf_blocks(pack.body).at(0).as<BlockNode>();
  EXPECT_TRUE(block->body.as<StoreNode>()->value.as<LoadNode>());
  c.check();
}

TEST(Prepack, FillsThePaddingWithZeros) {
  RewriteCase c(kMatmulBias);
  c.s.prepack("B", map_prepack(kColumns));
  NdArrays arrays{{"B", NdArray::random(ElemType::f32, {6, 20}, 1)}};
  interpret(c.s.module().packs.at(0), arrays);
  const NdArray& packed = arrays.at("B_packed");
  ASSERT_EQ(packed.shape, (std::vector<int64_t>{3, 6, 8}));
  for (int64_t k = 0; k < 6; ++k) {
    for (int64_t j = 0; j < 24; ++j) {
      double got = packed.data[static_cast<size_t>(((j / 8) * 6 + k) * 8 + j % 8)];
      EXPECT_EQ(got, j < 20 ? arrays.at("B").data[static_cast<size_t>(k * 20 + j)] : 0);
    }
  }
}

TEST(Prepack, Composes) {
  RewriteCase c(kMatmulBias);
  c.s.prepack("B", map_prepack(kColumns));
  c.s.prepack("B_packed", map_prepack("(b, k, j) -> (b, floordiv(k, 4), j, floormod(k, 4))"));
  ASSERT_EQ(c.s.module().packs.size(), 1u);
  EXPECT_GOLDEN(c.str());
  c.check();
}

// A block that was transposed or tiled before it became a pack program stores each element at
// indices other than its iterators. The new layout is copied from its output.
TEST(Prepack, CopiesWhatABlockWithOtherIteratorsMakes) {
  for (const char* iterators :
       {"(k, j) -> (j, k)", "(k, j) -> (k, floordiv(j, 5), floormod(j, 5))"}) {
    SCOPED_TRACE(iterators);
    RewriteCase c(kMatmulBias);
    c.s.cache_read({"T"}, "B", Scope::Global);
    c.s.transform_block_layout({"B_global"}, map_prepack(iterators));
    c.s.precompute({"B_global"});
    c.s.prepack("B_global", map_prepack(kColumns));
    ASSERT_EQ(c.s.module().packs.size(), 1u);
    EXPECT_EQ(leaf_blocks(c.s.module().packs[0].body).size(), 2u);
    c.check();
  }
}

TEST(Prepack, LaysConvolutionWeightsOut) {
  RewriteCase c(kConv);
  c.s.prepack("W", map_prepack("(r, s, c, o) -> (floordiv(o, 4), r, s, c, floormod(o, 4))"));
  c.s.compute_inline({"P"});
  c.check();
}

TEST(PrepackRefuses, OtherParametersAndUnknownNames) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.prepack("A", map_prepack("(i, j) -> (j, i)")); },
            RefusalKind::BadArgument, "'A' is an input; only a weight can be laid out at load",
            false);
  c.refuses([](Schedule& s) { s.prepack("T", map_prepack("(i, j) -> (j, i)")); },
            RefusalKind::NotFound, "no weight 'T'; there are: B", false);
}

TEST(PrepackRefuses, TheNameOfAWeightThatIsLaidOut) {
  RewriteCase c(kMatmulBias);
  c.s.prepack("B", map_prepack(kColumns));
  c.refuses([](Schedule& s) { s.prepack("B", map_prepack("(i, j) -> (j, i)")); },
            RefusalKind::BadArgument,
            "'B' is laid out already; name 'B_packed' to lay that out anew", false);
}

TEST(PrepackRefuses, MapsThatDoNotFit) {
  RewriteCase c(kMatmulBias);
  c.refuses([](Schedule& s) { s.prepack("B", map_prepack("(i) -> (i)")); },
            RefusalKind::BadArgument, "the map (i) -> (i) has 1 inputs; buffer 'B' has 2", false);
  c.refuses([](Schedule& s) { s.prepack("B", map_prepack("(i, j) -> (i + j)")); },
            RefusalKind::BadArgument, "cannot be inverted on buffer 'B'", false);
}

TEST(PrepackRefuses, PredicatedLoads) {
  RewriteCase c(R"(
program predicated(B: f32[4] weight, C: f32[4] output) {
  block root() {
    for x in 0..4 { block C(w: spatial 4 = x) { C[w] = (B[w] if (w < 3)) } }
  }
})");
  c.refuses(
      [](Schedule& s) { s.prepack("B", map_prepack("(i) -> (floordiv(i, 2), floormod(i, 2))")); },
      RefusalKind::Unsupported, "block 'C' accesses 'B' under a predicate or as a vector");
}

}  // namespace
}  // namespace tilewright::test
