// The C of four small kernels, word for word: changes of the passes or the printer show in it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "codegen/codegen.h"
#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "schedule/schedule.h"
#include "tests/codegen/support.h"
#include "tests/golden.h"

namespace tilewright {
namespace {

// The functions behind the prelude and the helpers: from the line that first names the kernel's
// function.
std::string functions_of(const Schedule& s, const std::set<std::string>& extensions = {}) {
  Target target = Target::parse("avx512");
  target.extensions.insert(extensions.begin(), extensions.end());
  KernelSource source = generate_c(s.module(), target);
  size_t name = source.code.find(source.description.main.symbol);
  return source.code.substr(source.code.rfind('\n', name) + 1);
}

// Tiles of 4 rows by a vector, accumulated in registers; tiles at the edges are partial tiles.
TEST(GeneratedC, OfATiledMatmul) {
  Schedule s = test::matmul_in_tiles("matmul:m=10,n=40,k=12", 4);
  s.parallel({"i_0"});
  EXPECT_GOLDEN(functions_of(s));
}

// No work is done for the padding.
TEST(GeneratedC, OfAPaddedConvolution) {
  Schedule s(lower(make_workload(parse_spec("conv2d:n=1,h=6,w=6,ci=2,co=16,kernel=3,pad=1"))));
  s.compute_inline(s.block("X_pad"));
  Block y = s.block("Y");
  std::vector<Loop> loops = s.loops(y);
  ASSERT_EQ(loops.size(), 7u);  // n, h, w, co, and the reduction over kh, kw, ci
  s.reorder({loops[0], loops[1], loops[2], loops[4], loops[5], loops[6], loops[3]});
  s.decompose_reduction(y, loops[4]);
  s.vectorize(loops[3]);
  EXPECT_GOLDEN(functions_of(s));
}

// Codes of 4 bits, unpacked in registers for the dot products of a group, whose sum is scaled.
TEST(GeneratedC, OfAWeightThatIsUnpackedInRegisters) {
  Schedule s(lower(
      make_workload(parse_spec("matmul:m=1,n=16,k=32,dtype=bf16,out=f32,w.dtype=u4,w.group=16"))));
  Block codes = s.widen_operand("B", ElemType::bf16, 0);
  s.compute_inline({"B_value"});
  // (k, j) in words of 4 codes per lane: those of 4 steps, each with 2 elements of k.
  s.prepack("B", IndexMap::parse("(k, j) -> (floordiv(k, 8), j, floormod(k, 2), "
                                 "floormod(floordiv(k, 2), 4))"));
  IndexMap terms = IndexMap::parse("(k, j) -> (floordiv(k, 2), j, floormod(k, 2))");
  s.transform_layout("B_bf16", terms);
  s.transform_block_layout(codes, terms);
  s.transform_block_layout({"C"}, IndexMap::parse("(i, j, k) -> (i, floordiv(k, 2), j, "
                                                  "floormod(k, 2))"));
  std::vector<Loop> loops = s.loops({"C"});  // i, steps, j, elements of k in a step
  std::vector<Loop> steps = s.split(loops[1], {2, 2, 4});
  s.compute_at(codes, steps[1]);
  Block init = s.decompose_reduction({"C"}, steps[0]);
  std::vector<Block> made = s.factor_scale({"C"}, steps[1], ElemType::f32);
  for (const Block& b : {init, made[1], Block{"C"}}) s.vectorize(s.loops(b).back());
  s.tensorize(loops[2], "avx512.vdpbf16ps",
              std::string(find_intrinsic("avx512.vdpbf16ps")->computes));
  s.unroll(steps[2]);
  std::vector<Loop> lanes = s.loops(codes);
  s.vectorize(s.fuse({lanes[lanes.size() - 2], lanes.back()}));
  s.unroll(lanes[lanes.size() - 3]);
  EXPECT_GOLDEN(functions_of(s, {"avx512bf16"}));
}

// A line of the weight is fetched as often as one begins: once for two vectors of 16 bits.
TEST(GeneratedC, OfAWeightThatIsFetchedAhead) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=1,n=64,k=12,dtype=bf16,out=f32"))));
  s.prepack("B", IndexMap::parse("(k, j) -> (floordiv(j, 32), k, floormod(j, 32))"));
  std::vector<Loop> loops = s.loops({"C"});  // i, j, k
  std::vector<Loop> columns = s.split(loops[1], {2, 2, 16}), steps = s.split(loops[2], {-1, 3});
  s.reorder({columns[0], steps[0], steps[1], columns[1], columns[2]});
  Block init = s.decompose_reduction({"C"}, steps[0]);
  for (const Block& b : {init, Block{"C"}}) s.vectorize(s.loops(b).back());
  s.unroll(steps[1]);
  s.unroll(columns[1]);
  s.annotate(steps[0], kFetchAhead, 4096);
  EXPECT_GOLDEN(functions_of(s));
}

// Rounds of rows, m in all, over a panel of 12 rows of 64 columns, k then by 3: each fetches its part of the next panel.
Schedule in_panels(const std::string& m, int64_t rows) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=" + m + ",n=128,k=12"))));
  s.prepack("B", IndexMap::parse("(k, j) -> (floordiv(j, 64), k, floormod(j, 64))"));
  std::vector<Loop> loops = s.loops({"C"});  // i, j, k
  std::vector<Loop> i = s.split(loops[0], {-1, rows}), j = s.split(loops[1], {2, 4, 16}),
                    k = s.split(loops[2], {-1, 3});
  s.reorder({j[0], i[0], k[0], k[1], i[1], j[1], j[2]});
  Block init = s.decompose_reduction({"C"}, k[0]);
  for (const Block& b : {init, Block{"C"}}) s.vectorize(s.loops(b).back());
  for (const Loop& l : {k[1], i[1], j[1]}) s.unroll(l);
  s.annotate(k[0], kFetchAhead, std::string(kNextPanel));
  return s;
}

// The twelve lines of a step in five rounds, three each at most.
TEST(GeneratedC, OfAPanelThatIsFetchedWhileTheOneBeforeIsRead) {
  EXPECT_GOLDEN(functions_of(in_panels("10", 2)));
}

// How many rounds there are is known only at launch: they fetch one line each, in turn.
TEST(GeneratedC, OfAPanelThatIsFetchedInAnyNumberOfRounds) {
  EXPECT_GOLDEN(functions_of(in_panels("1..64", 2)));
}

// Two runs of four lines each, a thousand lines apart, are not a thousand lines.
TEST(GeneratedC, OfAPanelWhoseLinesLieApart) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=4,n=64,k=1024"))));
  s.prepack("B", IndexMap::parse("(k, j) -> (k, j)"));
  std::vector<Loop> loops = s.loops({"C"});  // i, j, k
  std::vector<Loop> j = s.split(loops[1], {-1, 2, 16}), k = s.split(loops[2], {2, -1});
  s.reorder({j[0], loops[0], k[1], k[0], j[1], j[2]});
  Block init = s.decompose_reduction({"C"}, k[1]);
  for (const Block& b : {init, Block{"C"}}) s.vectorize(s.loops(b).back());
  for (const Loop& l : {k[0], j[1]}) s.unroll(l);
  s.annotate(k[1], kFetchAhead, std::string(kNextPanel));
  const std::string text = functions_of(s);
  size_t count = 0;
  for (size_t at = text.find("prefetch"); at != std::string::npos;
       at = text.find("prefetch", at + 1))
    ++count;
  EXPECT_EQ(count, 2) << text;  // one line of each run in each of the four rounds
}

// There is no next panel.
TEST(GeneratedC, OfAWeightThatIsOnePanel) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=4,n=16,k=64"))));
  s.prepack("B", IndexMap::parse("(k, j) -> (k, j)"));
  std::vector<Loop> loops = s.loops({"C"});
  s.annotate(loops[2], kFetchAhead, std::string(kNextPanel));
  EXPECT_EQ(functions_of(s).find("prefetch"), std::string::npos);
}

// A chain of reductions over the rows, unscheduled.
TEST(GeneratedC, OfASoftmax) {
  Schedule s(lower(make_workload(parse_spec("softmax:m=3,n=20"))));
  EXPECT_GOLDEN(functions_of(s));
}

}  // namespace
}  // namespace tilewright
