// Facts behind the decisions of the generated sketch's rules.
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/printer.h"
#include "ir/visitor.h"
#include "tests/tuner/choices.h"
#include "tuner/candidate.h"
#include "tuner/rules/analysis.h"

namespace tilewright {
namespace {

using Periods = std::vector<int64_t>;

Periods periods(const std::string& spec, const std::string& block) {
  Schedule s(lower(make_workload(parse_spec(spec))));
  return zero_periods(s.node(s.block(block)));
}

TEST(ZeroPeriods, AreTheStridesOfATransposedConvolution) {
  EXPECT_EQ(periods("conv2d_transpose:n=1,h=4,w=4,ci=2,co=2,kernel=4,stride=2,pad=1", "X_pad"),
            (Periods{1, 2, 2, 1}));
  EXPECT_EQ(periods("conv2d_transpose:n=1,h=4,w=4,ci=2,co=2,kernel=3,stride=3", "X_pad"),
            (Periods{1, 3, 3, 1}));
}

TEST(ZeroPeriods, OrdinaryPaddingHasNone) {
  EXPECT_EQ(periods("conv2d:n=1,h=4,w=4,ci=2,co=2,kernel=3,pad=1", "X_pad"), (Periods{1, 1, 1, 1}));
}

std::optional<Candidate> candidate(const Workload& w, const Choices& choices) {
  const Target target = Target::parse("avx512");
  CandidateMaker maker(w, target, 2);
  return maker.make(cpu_sketches().front(), trial_with(choices));
}

void expect_same_results(const Workload& w, const Module& scheduled, bool flat = false) {
  NdArrays want, got;
  Program plain = lower(w);
  for (const Param& p : plain.params) {
    if (p.role == ParamRole::Output) continue;
    want[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), 7);
    got[p.buffer->name] = want[p.buffer->name];
  }
  for (auto& [name, array] : got) {
    if (flat) array.shape = {static_cast<int64_t>(array.data.size())};
  }
  interpret(plain, want);
  interpret(scheduled, got);
  for (const Param& p : scheduled.main.params) {
    if (p.role != ParamRole::Output) continue;
    const auto &a = want[p.buffer->name].data, &b = got[p.buffer->name].data;
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << "element " << i;
  }
}

TEST(TileContraction, TakesThePhasesOfATransposedConvolutionApart) {
  Workload w =
      make_workload(parse_spec("conv2d_transpose:n=1,h=3,w=3,ci=2,co=16,kernel=4,stride=2,pad=1"));
  auto c = candidate(w, {{"Y.W", "none"}});
  ASSERT_TRUE(c);
  EXPECT_NE(c->config.find(R"("Y.X_pad.phases":"apart")"), std::string::npos) << c->config;
  expect_same_results(w, c->module);
}

// An epilogue, and an output narrower than its accumulator, then remain separate stages.
TEST(TileContraction, PhasesGoWithEpilogues) {
  for (const char* extra : {",epilogue=[relu]", ",dtype=bf16"}) {
    SCOPED_TRACE(extra);
    Workload w = make_workload(parse_spec(
        "conv2d_transpose:n=1,h=4,w=4,ci=6,co=10,kernel=4,stride=2,pad=1" + std::string(extra)));
    Target target = Target::parse("avx512");
    CandidateMaker maker(w, target, 2);
    EXPECT_TRUE(maker.make(cpu_sketches().front(), Trial::first()))
        << maker.illegal().by_reason.begin()->first;
  }
}

// Rows of 7 would leave most of 16 lanes empty, and the weight can be laid out by channels.
TEST(TileContraction, RunsVectorsAlongTheChannelsWhereRowsAreShort) {
  Workload w = make_workload(
      parse_spec("conv2d:n=1,h=7,w=7,ci=4,co=32,kernel=3,pad=1,layout=nchw,epilogue=[relu]"));
  auto c = candidate(w, {{"Y_acc.W", "none"}});
  ASSERT_TRUE(c);
  EXPECT_NE(c->config.find(R"("Y_acc.lanes":"vco")"), std::string::npos) << c->config;
  expect_same_results(w, c->module);
}

// Scalar stores before vector loads would stall once per group.
TEST(TileContraction, SumsOfIntrinsicsStartAsVectors) {
  Workload w =
      make_workload(parse_spec("matmul:m=1,n=64,k=64,dtype=i8,acc=f32,w.dtype=i4,w.group=32"));
  Target target = Target::parse("avx512");
  target.extensions.insert("avx512vnni");
  CandidateMaker maker(w, target, 1);
  auto c = maker.make(cpu_sketches().front(), Trial::first());
  ASSERT_TRUE(c);
  EXPECT_NE(c->config.find(R"("C.intrinsic":"avx512.vpdpbusd)"), std::string::npos) << c->config;
  std::string text = to_string(c->module.main);
  size_t zero = text.find("_zero in 0..16 "), line = text.find('\n', zero);
  ASSERT_NE(zero, std::string::npos) << text;
  EXPECT_NE(text.substr(zero, line - zero).find("vectorized"), std::string::npos) << text;
}

// The transposing write is inside the tile's own loops, while the tile is in cache.
TEST(TileContraction, WritesAcrossTileByTile) {
  Workload w =
      make_workload(parse_spec("conv2d:n=1,h=7,w=7,ci=4,co=32,kernel=3,pad=1,layout=nchw"));
  auto c = candidate(w, {{"Y.W", "none"}});
  ASSERT_TRUE(c);
  expect_same_results(w, c->module);
  std::string text = to_string(c->module.main);
  size_t sums = text.find("block Y("), parallel = text.rfind(" parallel {");
  ASSERT_NE(sums, std::string::npos);
  EXPECT_LT(parallel, sums) << text;
}

// K is read across its rows, so a copy of it is the first choice; a copy of Q is a second one.
TEST(TileContraction, CopiesOperandsThatAreReadAcross) {
  Workload w = make_workload(parse_spec(
      R"x(expr:expr="C[h,i,j] += Q[i,h,d] * K[j,h,d]",dims.h=2,dims.i=17,dims.j=20,dims.d=5)x"));
  auto c = candidate(w, {{"C.Q", "copy"}});
  ASSERT_TRUE(c);
  EXPECT_NE(c->config.find(R"("C.K":"copy")"), std::string::npos) << c->config;
  Schedule s(c->module.main);
  EXPECT_EQ(s.blocks().size(), 4u) << "two copies, initial values, and the sum";
  expect_same_results(w, c->module);
}

// A contraction's result for the next one is written in blocks, not copied into them.
TEST(ChainedContractions, ShareABlockedLayout) {
  for (
      const char* expr :
      {R"(expr="T[i,k] += A[i,l] * B[l,k]; C[i,j] += T[i,k] * D[k,j]")",
       R"(expr="T[i,l] += A[i,k] * B[k,l]; R[i,l] = max(T[i,l], 0); C[i,j] += R[i,l] * D[l,j]")",
       R"(expr="T[p,l] += X[p+r,k] * U[r,k,l]; C[i,j] += T[i+r,l] * V[r,l,j]",dims.r=2,dims.p=6)"}) {
    SCOPED_TRACE(expr);
    bool conv = std::string(expr).find("T[p") != std::string::npos;
    Workload w =
        make_workload(parse_spec(std::string("expr:") + expr + (conv ? ",dims.i=5" : ",dims.i=6") +
                                 ",dims.j=40,dims.k=36,dims.l=36"));
    const std::string between = w.stages[w.stages.size() - 2].output->name;
    auto c = candidate(w, {{"C." + between + ".block", 16}});
    ASSERT_TRUE(c);
    std::string text = to_string(c->module.main);
    EXPECT_NE(text.find(between + ": f32[3, 6, 16]"), std::string::npos) << text;
    EXPECT_EQ(text.find(between + "_global"), std::string::npos) << text;
    expect_same_results(w, c->module);
    Module lowered{lower_for_cpu(c->module.main, Target::parse("avx512")), {}};
    for (const Program& pack : c->module.packs) {
      lowered.packs.push_back(lower_for_cpu(pack, Target::parse("avx512")));
    }
    expect_same_results(w, lowered, true);
  }
}

// Also with zero padding in between: the padded source is blocked if the padding is read in place,
// otherwise the padded copy is.
TEST(ChainedContractions, ShareABlockedLayoutAcrossPadding) {
  Workload w = make_workload(parse_spec(
      R"(expr:expr="T[p,l] += X[p+r,k] * U[r,k,l]; P[q,l] = select(q >= 1 && q < 7, T[q-1,l], 0); )"
      R"(C[i,j] += P[i+s,l] * V[s,l,j]",dims.r=2,dims.s=3,dims.p=6,dims.q=8,dims.i=6,dims.j=40,)"
      R"(dims.k=36,dims.l=36)"));
  for (const char* way : {"inline", "root"}) {
    SCOPED_TRACE(way);
    const std::string between = std::string(way) == "inline" ? "T" : "P";
    auto c = candidate(w, {{"C.P", way}, {"C." + between + ".block", 16}});
    ASSERT_TRUE(c);
    std::string text = to_string(c->module.main);
    const std::string shape = between == "T" ? "T: f32[3, 6, 16]" : "P: f32[3, 8, 16]";
    EXPECT_NE(text.find(shape), std::string::npos) << text;
    expect_same_results(w, c->module);
  }
}

// One loop over all rows, whose partial results are in vectors of their own, however the rows' axes are cut.
TEST(Rows, PartialResultsBelongToOneRow) {
  for (const char* spec : {"reduce:shape=1x12x108,axes=2,kind=max", "softmax:m=12,n=108",
                           "reduce:shape=1x3x4x54,axes=3,kind=mean"}) {
    const Workload w = make_workload(parse_spec(spec));
    const auto c = candidate(w, {});
    ASSERT_TRUE(c) << spec;
    expect_same_results(w, c->module);
    const Program lowered = lower_for_cpu(c->module.main, Target::parse("avx512"), {});
    for_each_stmt(lowered.body, [&](const Stmt& s) {
      auto* alloc = s.as<AllocateNode>();
      if (!alloc || alloc->buffer->name.find("_rf") == std::string::npos) return;
      EXPECT_LE(*as_int(alloc->buffer->shape[0]), 128) << spec;
    });
  }
}

// A window over each channel: lanes along channels would be loaded one by one, so the padded copy has
// channels last.
TEST(TileContraction, PutsTheChannelsOfADepthwiseWindowLast) {
  const Workload w = make_workload(
      parse_spec("conv2d:n=1,h=6,w=7,ci=32,co=32,kernel=3,pad=1,groups=32,layout=nchw"));
  for (const char* place : {"root", "tile"}) {
    const auto c = candidate(w, {{"Y.lanes", "vco"}, {"Y.X_pad", place}});
    ASSERT_TRUE(c) << place;
    expect_same_results(w, c->module);
  }
  EXPECT_FALSE(candidate(w, {{"Y.lanes", "vco"}, {"Y.X_pad", "inline"}})) << "no such choice";
}

// A window over each channel reads its padding in place, and its tiles are whole ones where few follow
// each other. A product with padding copies it.
TEST(TileContraction, BeginsWindowsWithoutCopiesAndPartialTiles) {
  const Target target = Target::parse("avx512");
  const auto first = [&](const std::string& spec) {
    return applied_trial(cpu_sketches()[0], {make_workload(parse_spec(spec)), target, 1});
  };
  const Trial window = first("depthwise_conv2d:n=1,h=20,w=20,c=64,kernel=3,pad=1");
  EXPECT_EQ(choice_of(window, ".X_pad"), "inline");
  EXPECT_EQ(choice_of(window, "vow.rows"), "5");
  const Trial product = first("conv2d:n=1,h=20,w=20,ci=64,co=64,kernel=3,pad=1");
  EXPECT_EQ(choice_of(product, ".X_pad"), "inline");
  EXPECT_EQ(choice_of(first("depthwise_conv2d:n=1,h=20,w=100,c=64,kernel=3,pad=1"), "vow.rows"),
            "7")
      << "one of many tiles may be partial";
}

// A vector along the image's rows serves several channels, and five vectors have a row of 80.
TEST(TileContraction, KeepsWhatIsReadInVectorsForSeveralChannels) {
  const Workload w =
      make_workload(parse_spec("conv2d:n=1,h=80,w=80,ci=16,co=24,kernel=3,pad=1,layout=nchw"));
  const Trial first = applied_trial(cpu_sketches()[0], {w, Target::parse("avx512"), 1});
  EXPECT_EQ(choice_of(first, "vow.vectors"), "5");
  EXPECT_EQ(choice_of(first, "vco.rows"), "4");
}

// A tile's scales and offsets lie side by side, group by group, as its codes do.
TEST(TileContraction, PacksTheScalesOfGroups) {
  const Workload w = make_workload(
      parse_spec("matmul:m=2,n=40,k=64,w.dtype=u4,w.group=16,w.scale=f16,w.offset=f16"));
  for (const char* scales : {"sums", "elements"}) {
    const auto c = candidate(w, {{"C.scales", scales}});
    ASSERT_TRUE(c) << scales;
    const std::string program = to_string(c->module.main);
    EXPECT_NE(program.find("B.scale_packed"), std::string::npos) << program;
    EXPECT_NE(program.find("B.offset_packed"), std::string::npos) << program;
  }
}

// One row takes each element of a weight once, which memory limits; many rows take a panel from a cache, and for
// very many its first round is no matter.
TEST(FetchAhead, IsForLargeWeights) {
  const auto fetch = [&](const std::string& spec) {
    return choice_of(applied_trial(cpu_sketches()[0],
                                   {make_workload(parse_spec(spec)), Target::parse("avx512"), 1}),
                     ".fetch");
  };
  EXPECT_EQ(fetch("matmul:m=1,n=512,k=512"), "ahead");
  EXPECT_EQ(fetch("matmul:m=16,n=512,k=512"), "ahead");
  EXPECT_EQ(fetch("matmul:m=17,n=512,k=512"), "panel");
  EXPECT_EQ(fetch("matmul:m=1024,n=512,k=512"), "panel");
  EXPECT_EQ(fetch("matmul:m=1025,n=512,k=512"), "not asked");
  EXPECT_EQ(fetch("matmul:m=1,n=128,k=256"), "not asked") << "it stays in a cache";
  for (const auto& [way, note] :
       {std::pair("ahead", "fetch_ahead: 4096"), std::pair("panel", "next_panel")}) {
    const auto c =
        candidate(make_workload(parse_spec("matmul:m=64,n=512,k=512")), {{"C.fetch", way}});
    ASSERT_TRUE(c);
    EXPECT_NE(to_string(c->module.main).find(note), std::string::npos) << way;
  }
}

// The loop around an instruction fetches, not one of those that the instruction stands for.
TEST(FetchAhead, GoesAroundInstructions) {
  for (const char* spec :
       {"matmul:m=64,n=1024,k=1024,dtype=bf16,out=f32", "matmul:m=64,n=1024,k=1024,dtype=i8"}) {
    const Target target = Target::parse("avx512+avx512bf16+avx512vnni");
    const Workload w = make_workload(parse_spec(spec));
    CandidateMaker maker(w, target, 2);
    const auto c = maker.make(cpu_sketches().front(), trial_with({{"C.fetch", "panel"}}));
    ASSERT_TRUE(c) << spec;
    const std::string program = to_string(c->module.main);
    ASSERT_NE(program.find("intrinsic: "), std::string::npos) << program;
    EXPECT_LT(program.find("next_panel"), program.find("intrinsic: ")) << program;
    EXPECT_NE(generate_c(c->module, target).code.find("__builtin_prefetch"), std::string::npos)
        << spec;
  }
}

// Windows that move along memory by one element or two are computed a vector at a time, and their padding is
// not tested for each of them.
TEST(TileContraction, TakesWindowsThatMoveAlongMemory) {
  for (int stride : {1, 2}) {
    const std::string s = std::to_string(stride), size = std::to_string(20 * stride + 2);
    const Workload w = make_workload(
        parse_spec("expr:expr=\"P[c, y, x] = select(y >= 1 && x >= 1, X[c, y - 1, x - 1], -9); "
                   "Y[c, h, w] max= P[c, h * " +
                   s + " + p, w * " + s + " + q]\",dims.c=3,dims.y=" + size + ",dims.x=" + size +
                   ",dims.h=20,dims.w=20,dims.p=3,dims.q=3"));
    const auto c = candidate(w, {});
    ASSERT_TRUE(c);
    EXPECT_NE(c->config.find("Y.vw.vectors"), std::string::npos) << c->config;
    expect_same_results(w, c->module);
  }
  const Schedule s(lower(make_workload(
      parse_spec("expr:expr=\"Y[c, w] max= X[c, w * 3 + q]\",dims.c=4,dims.w=16,dims.q=3"))));
  EXPECT_EQ(analyze(s, s.block("Y")).role, BlockRole::RowReduction) << "lanes lie three apart";
}

// The rows of a small matrix, and places in a tile: each value has conditions of its own, which are known once
// it is unrolled. The last tile is a partial one.
TEST(Injective, UnrollsValuesThatAreToldApart) {
  const Workload w = make_workload(parse_spec(
      R"x(expr:expr="Y[a, i, c] = select(a == 0, X[i // 3, c] - X[i // 3 + 1, c], select(a == 1, )x"
      R"x(2 * X[i // 3, c], X[i // 3 + 1, c])) + select(i % 3 == 0, 5, select(i % 3 == 1, 7, 9))",)x"
      R"x(dims.a=3,dims.i=13,dims.c=21,shapes.X=[6,21])x"));
  for (const char* way : {"unroll", "loop"}) {
    const auto c = candidate(w, {{"Y.values", way}});
    ASSERT_TRUE(c) << way;
    expect_same_results(w, c->module);
    const std::string text = to_string(c->module.main);
    EXPECT_EQ(text.find("unrolled") != std::string::npos, std::string(way) == "unroll") << text;
  }
}

// Transposed copies go along the lines of what they read, within the vectors of what they write: with rests of both,
// behind another axis, and beside an operand that lies as the result does.
TEST(Injective, TransposedOperandsAreReadLineByLine) {
  const auto text_of = [](const std::string& spec, const char* order) {
    const Workload w = make_workload(parse_spec(spec));
    const auto c = candidate(w, {{"C.order", order}});
    if (!c) return std::string("none");
    expect_same_results(w, c->module);
    return to_string(c->module.main);
  };
  for (const char* spec :
       {R"x(expr:expr="C[i, j] = A[j, i]",dims.i=50,dims.j=37)x",
        R"x(expr:expr="C[c, h, w] = A[h, w, c] + B[c, h, w]",dims.c=24,dims.h=3,dims.w=20)x",
        R"x(expr:expr="C[h, w, c] = select(c < 20, A[c, h, w], B[h, w, c - 20])",)x"
        R"x(dims.c=33,dims.h=3,dims.w=19,shapes.A=[20,3,19])x"}) {
    const std::string lines = text_of(spec, "lines"), rows = text_of(spec, "rows");
    EXPECT_NE(lines, "none") << spec;
    EXPECT_NE(lines, rows) << spec;
  }
  for (const char* spec : {R"x(expr:expr="C[i, j] = A[i, j] + B[j]",dims.i=50,dims.j=37)x",
                           R"x(expr:expr="C[i, j] = A[i + j]",dims.i=50,dims.j=37)x",
                           R"x(expr:expr="C[i, j] = A[j, i]",dims.i=50,dims.j=7)x"}) {
    EXPECT_EQ(text_of(spec, "lines"), "none") << spec << ": no such choice";
  }
}

TEST(Injective, ManyValuesStayALoop) {
  const Workload w = make_workload(
      parse_spec(R"x(expr:expr="Y[a, c] = select(a == 4, 0, X[a, c])",dims.a=90,dims.c=16)x"));
  EXPECT_FALSE(candidate(w, {{"Y.values", "unroll"}})) << "no such choice";
}

}  // namespace
}  // namespace tilewright
