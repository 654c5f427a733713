// The mappings of contractions to intrinsics; each must compute the right result.
#include "tuner/rules/cpu/tensor_mapping.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/lowering.h"
#include "ir/interpreter/interpreter.h"
#include "ir/ops/spec.h"
#include "ir/text/parser.h"
#include "ir/visitor.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/rules/cpu/tensor.h"
#include "tuner/rules/rules.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using Names = std::vector<std::string>;

// Independent of this machine's features.
Target with_dots(const std::string& name = "avx512") {
  Target target = Target::parse(name);
  if (name == "avx512") target.extensions = {"avx512vnni", "avx512bf16"};
  return target;
}

// The block of a workload's contraction: the last one of its result.
Block contraction_of(const Schedule& s, const Workload& w) {
  for (const Stage& stage : w.stages) {
    if (!stage.reduce_axes.empty()) return s.block(stage.output->name);
  }
  ADD_FAILURE() << "no stage reduces";
  return {};
}

Names mappings(const std::string& spec, const Target& target = with_dots()) {
  Workload w = make_workload(parse_spec(spec));
  Schedule s(lower(w));
  Names names;
  for (const TensorMapping& m :
       find_tensor_mappings(s, contraction_of(s, w), intrinsics_of(target)).list) {
    names.push_back(m.name);
  }
  return names;
}

std::string refusal(const std::string& spec, const Target& target = with_dots()) {
  Workload w = make_workload(parse_spec(spec));
  Schedule s(lower(w));
  return explain_match(s, contraction_of(s, w), target);
}

// The sketch's first choices, with this mapping.
Schedule scheduled_tensor_mapping(const Workload& w, const Target& target,
                                  const std::string& mapping) {
  return cpu_schedule(w, target, {{".intrinsic", mapping}});
}

bool has_intrinsic(const Program& p) {
  bool found = false;
  for_each_stmt(p.body, [&](const Stmt& s) {
    auto* loop = s.as<ForNode>();
    found |= loop && loop->annotations.count("intrinsic") != 0;
  });
  return found;
}

// Packing and main program together compute the workload's result, as scheduled and as lowered.
void expect_same_meaning(const Workload& w, const Schedule& s, const Target& target) {
  Program plain = lower(w);
  NdArrays want, got;
  for (const Param& p : plain.params) {
    if (p.role == ParamRole::Output) continue;
    want[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), 5);
    got[p.buffer->name] = want[p.buffer->name];
  }
  interpret(plain, want);
  interpret(s.module(), got);
  for (const Param& p : plain.params) {
    if (p.role != ParamRole::Output) continue;
    const std::vector<double>&a = want[p.buffer->name].data, &b = got[p.buffer->name].data;
    double allowed = is_integer(p.buffer->elem) ? 0 : 1e-2;
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], allowed * (1 + std::abs(a[i]))) << "element " << i << " of\n"
                                                              << s.trace().str();
    }
  }
  lower_for_cpu(s.module().main, target);  // the loops still form the intrinsic
}

TEST(TensorMapping, OfAMatrixProductIsTheUsualOne) {
  EXPECT_THAT(mappings("matmul:m=8,n=64,k=64,dtype=i8"), ElementsAre("avx512.vpdpbusd"));
  EXPECT_THAT(mappings("matmul:m=8,n=64,k=64,dtype=bf16"), ElementsAre("avx512.vdpbf16ps"));
  EXPECT_THAT(mappings("matmul:m=8,n=64,k=64,dtype=i8", with_dots("avx2")),
              ElementsAre("avx2.vpmaddwd", "avx2.vpmaddwd_i8_i8"));
}

// A few channels would be padded to a register's worth; the window's row and the whole window have
// no gaps.
TEST(TensorMapping, FusesTheWindowOfAFewChannels) {
  EXPECT_EQ(
      mappings("conv2d:n=1,h=28,w=28,ci=3,co=64,kernel=7,stride=2,pad=3,dtype=i8"),
      (Names{"avx512.vpdpbusd over kw,ci", "avx512.vpdpbusd", "avx512.vpdpbusd over kh,kw,ci"}));
  EXPECT_EQ(mappings("conv2d:n=1,h=14,w=14,ci=64,co=64,kernel=3,dtype=i8"),
            (Names{"avx512.vpdpbusd"}));
}

// Values read beyond a row could be NaN: floats take it only if nothing lies beyond.
TEST(TensorMapping, ReadsFloatsNotBeyondTheirWindow) {
  EXPECT_EQ(mappings("conv2d:n=1,h=12,w=12,ci=3,co=32,kernel=3,dtype=bf16"),
            (Names{"avx512.vdpbf16ps", "avx512.vdpbf16ps over kh,kw,ci"}));
  EXPECT_EQ(
      mappings("conv2d:n=1,h=12,w=12,ci=3,co=32,kernel=4,dtype=bf16"),
      (Names{"avx512.vdpbf16ps over kw,ci", "avx512.vdpbf16ps", "avx512.vdpbf16ps over kh,kw,ci"}));
}

TEST(TensorMapping, FindsTheChannelsWhereverTheyStand) {
  EXPECT_EQ(mappings("conv2d:n=1,h=8,w=8,ci=8,co=16,kernel=3,layout=nchw,dtype=i8"),
            (Names{"avx512.vpdpbusd over ci for co"}));
  EXPECT_EQ(mappings("conv2d:n=1,h=8,w=8,ci=16,co=32,kernel=3,groups=2,dtype=i8"),
            (Names{"avx512.vpdpbusd over ci for co"}));
  EXPECT_EQ(mappings("matmul:m=32,n=32,k=24,dtype=i8,trans_a=true"),
            (Names{"avx512.vpdpbusd over k"}));
}

TEST(TensorMapping, TakesTwoActivations) {
  EXPECT_EQ(mappings(R"(expr:expr="C[b,i,j] += A[b,i,k] * B[b,k,j]",dims.b=3,dims.i=32,)"
                     R"(dims.j=48,dims.k=16,dtype=bf16,out=f32)"),
            (Names{"avx512.vdpbf16ps", "avx512.vdpbf16ps over k for i"}));
}

TEST(TensorMapping, RefusalsNameTheIteratorThatFails) {
  EXPECT_EQ(
      refusal("depthwise_conv2d:n=1,h=10,w=10,c=32,kernel=3,pad=1,dtype=i8"),
      "no spatial iterator is the intrinsic's 'j', which 'W' has and 'X_pad' has not: 'n' is "
      "not in 'W'; 'oh' is not in 'W'; 'ow' is not in 'W'; 'c' is in both, a batch dimension");
  EXPECT_EQ(refusal("matmul:m=8,n=3,k=64,dtype=i8"),
            "iterator 'j' of 3 is less than half of the 16 lanes of 'avx512.vpdpbusd'");
  EXPECT_EQ(refusal("matmul:m=8,n=64,k=64"),
            "no intrinsic of the target adds products of 'A' (f32) and 'B' (f32) to f32");
  EXPECT_EQ(refusal(R"(expr:expr="C[i,j] += A[i] * B[j,k]",dims.i=32,dims.j=48,dims.k=16,)"
                    R"(dtype=bf16,out=f32,weights=B)"),
            "no reduction iterator is the intrinsic's 'k', which 'A' and 'B' have: 'k' is not in "
            "'A'");
  EXPECT_EQ(refusal("reduce:shape=40x70,axes=1,kind=sum,dtype=i8"),
            "block 'Y' does not sum products of elements of two operands");
  EXPECT_EQ(refusal(R"(expr:expr="C[i,j] += A[i,k] * B[k,j]",dims.i=4,dims.j=48,dims.k=16,)"
                    R"(dtype=bf16,out=f32)"),
            "'B' is no weight, and each of its elements is read 4 times: fewer than the 16 that "
            "packing it in each run takes");
  EXPECT_EQ(refusal("matmul:m=8,n=64,k=64,dtype=i8"), "");
}

// Sums of two products stay within 16 bits if the weight has few bits.
TEST(TensorMapping, TakesRowsThatSaturateForNarrowWeightsOnly) {
  Target avx2 = Target::parse("avx2");
  for (std::string type : {"i8", "i4", "u4", "i2"}) {
    SCOPED_TRACE(type);
    Program program = parse_program("program p(A: u8[9, 30] input, B: " + type + R"([30, 40] weight,
        C: i32[9, 40] output) {
      block root() {
        for i in 0..9 { for j in 0..40 { for k in 0..30 {
          block C(vi: spatial 9 = i, vj: spatial 40 = j, vk: reduce 30 = k) {
            init { C[vi, vj] = 0i32 }
            C[vi, vj] = C[vi, vj] + cast<i32>(A[vi, vk]) * cast<i32>(B[vk, vj])
          }
        }}}
      }
    })");
    Schedule s(program);
    std::vector<TensorMapping> found = find_tensor_mappings(s, {"C"}, intrinsics_of(avx2)).list;
    Names names;
    for (const TensorMapping& m : found) names.push_back(m.name);
    EXPECT_EQ(names, type == "i8" ? (Names{"avx2.vpmaddwd", "avx2.vpmaddwd_u8_i8"})
                                  : (Names{"avx2.vpmaddubsw"}));
    Workload w;
    SketchInput input{w, avx2, 1};
    Trial first = Trial::first();
    RuleContext c{s, first, input};
    tile_contraction(c, {"C"});
    NdArrays want{{"A", NdArray::random(ElemType::u8, {9, 30}, 5)},
                  {"B", NdArray::random(program.params[1].buffer->elem, {30, 40}, 6)}};
    NdArrays got = want;
    interpret(program, want);
    interpret(s.module(), got);
    EXPECT_EQ(want.at("C").data, got.at("C").data);
    bool saturates = generate_c(s.module(), avx2).code.find("vpmaddubsw") != std::string::npos;
    EXPECT_EQ(saturates, type != "i8");
  }
}

TEST(TensorMapping, RefusesTooFewTerms) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=8,n=64,k=1,dtype=i8"))));
  EXPECT_EQ(find_tensor_mappings(s, {"C"}, {find_intrinsic("avx512.vpdpbusd")}).refusal,
            "iterator 'k' of 1 is less than half of the 4 terms of 'avx512.vpdpbusd'");
}

// Every mapping, with the first options for all other knobs.
class EveryMapping : public testing::TestWithParam<const char*> {};

TEST_P(EveryMapping, MeansTheSame) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = with_dots();
  Names names = mappings(GetParam());
  ASSERT_FALSE(names.empty());
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    Schedule s = scheduled_tensor_mapping(w, target, name);
    EXPECT_TRUE(has_intrinsic(s.program()));
    expect_same_meaning(w, s, target);
  }
}

TEST_P(EveryMapping, ComputesItWhenCompiled) {
  Workload w = make_workload(parse_spec(GetParam()));
  Target target = Target::parse("native");
  for (const std::string& name : mappings(GetParam(), target)) {
    SCOPED_TRACE(name);
    expect_right(w, scheduled_tensor_mapping(w, target, name), target);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryMapping,
    testing::Values("matmul:m=9,n=40,k=30,dtype=i8", "matmul:m=20,n=33,k=30,dtype=i8,trans_a=true",
                    "conv2d:n=1,h=9,w=10,ci=3,co=20,kernel=3,pad=1,dtype=i8",
                    "conv2d:n=1,h=11,w=11,ci=3,co=16,kernel=7,stride=2,pad=3,dtype=i8",
                    "conv2d:n=1,h=9,w=10,ci=3,co=20,kernel=3,pad=1,dtype=bf16",
                    "conv2d:n=2,h=7,w=7,ci=3,co=16,kernel=4,stride=2,dtype=bf16",
                    "conv2d:n=1,h=7,w=8,ci=8,co=20,kernel=3,layout=nchw,dtype=i8",
                    "conv2d:n=1,h=7,w=8,ci=6,co=16,kernel=3,pad=1,layout=nchw,dtype=bf16",
                    "conv2d:n=1,h=7,w=8,ci=8,co=16,kernel=3,layout=nchw,dtype=i8,epilogue=[relu]",
                    "conv2d:n=1,h=7,w=8,ci=16,co=32,kernel=3,pad=1,groups=2,dtype=i8",
                    "conv2d:n=1,h=7,w=8,ci=6,co=24,kernel=3,groups=2,dtype=bf16",
                    "conv1d:n=2,l=30,ci=3,co=20,kernel=5,stride=2,pad=1,dtype=i8",
                    R"(expr:expr="C[b,i,j] += A[b,i,k] * B[b,k,j]",dims.b=2,dims.i=17,dims.j=33,)"
                    R"(dims.k=15,dtype=bf16,out=f32)",
                    R"(expr:expr="C[i,j] += A[i,k] * B[j,k]",dims.i=17,dims.j=33,dims.k=15,)"
                    R"(dtype=i8)"));

// A product of two operands over up to two reductions, with indices in any order, some of them
// sums.
std::string random_contraction(uint64_t seed) {
  Rng rng(seed);
  auto shuffled = [&](Names list) {
    for (size_t n = list.size(); n > 1; --n) std::swap(list[n - 1], list[rng.below(n)]);
    return fmt::format("{}", fmt::join(list, ","));
  };
  bool batch = rng.below(3) == 0, second = rng.below(2) == 0, window = rng.below(3) == 0;
  Names a = {window && second ? "i*2+r" : "i", "k"}, b = {"j", "k"}, c = {"i", "j"};
  if (batch) {
    for (Names* list : {&a, &b, &c}) list->push_back("b");
  }
  if (second && !window) a.push_back("r");
  if (second) b.push_back("r");
  bool bytes = rng.below(2) == 0, weight = !batch && rng.below(2) == 0;
  std::string spec = fmt::format(
      R"(expr:expr="C[{}] += A[{}] * B[{}]",dims.i={},dims.j={},dims.k={})", shuffled(c),
      shuffled(a), shuffled(b), 16 + rng.below(4), 9 + rng.below(20), 3 + rng.below(14));
  if (batch) spec += ",dims.b=2";
  if (second) spec += fmt::format(",dims.r={}", 2 + rng.below(3));
  spec += bytes ? ",dtype=i8" : ",dtype=bf16,out=f32";
  return weight ? spec + ",weights=B" : spec;
}

TEST(TensorMapping, RandomContractionsMeanTheSame) {
  Target target = with_dots();
  int checked = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    std::string spec = random_contraction(seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, spec));
    Workload w = make_workload(parse_spec(spec));
    for (const std::string& name : mappings(spec, target)) {
      SCOPED_TRACE(name);
      expect_same_meaning(w, scheduled_tensor_mapping(w, target, name), target);
      ++checked;
    }
  }
  EXPECT_GT(checked, 40);
}

}  // namespace
}  // namespace tilewright
