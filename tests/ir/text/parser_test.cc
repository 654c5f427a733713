#include "ir/text/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/compare.h"
#include "ir/text/printer.h"
#include "tests/golden.h"
#include "tests/ir/random_program.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

// The program of the printer's documentation, followed by one statement of each kind.
constexpr const char* kEveryKind = R"(
program every_kind(A: f32[4, 8] input, B: f32[8, m] weight, C: f32[4, m] output) dims(m: 1..64) {
  block root() @{target: "any \"text\"", version: 3} {
    alloc T: f32[4, 16] register
    alloc `a name`: f32[] local
    for i in 0..4 parallel @{note: -3} {
      for j in 2..2+m vectorized {
        for k in 0..8 {
          block C(vi: spatial 4 = i, vj: spatial m = j, vk: reduce 8 = k) where (i < 4) {
            init {
              C[vi, vj] = 0.0f32
            }
            C[vi, vj] = (C[vi, vj] + (A[vi, vk] * B[vk, vj]))
          }
        }
      }
    }
    if ((m < 8) && (!(m == 3))) {
      `a name`[] = select(true, inf<f32>, (-1.5e-07f32))
    } else {
      let x: f32x4 = (A[0, ramp(0, 1, 4)] if broadcast(false, 4)) {
        T[1, ramp(0, 1, 4)] = max(x, broadcast(cast<f32>(min(3i8, -4i8)), 4)) if (x < x)
      }
    }
    allocate S: u8[16] shared {
      S[0] <-async bitcast<u8>(if_then_else<i8>((m > 1), 1i8, -1i8))
      async_commit<bool>()
      async_wait<bool>(0)
      barrier<bool>()
      prefetch<bool>(A[0, floormod(m, 8)], 3)
    }
  }
}
)";

TEST(Parser, ReadsEveryKindAndPrintsItBack) {
  Program p = parse_program(kEveryKind);
  EXPECT_EQ(p.params.size(), 3u);
  EXPECT_EQ(p.dims.at(0).max, 64);
  std::string text = to_string(p);
  EXPECT_EQ("\n" + text, kEveryKind);
  EXPECT_TRUE(equal(p, parse_program(text)));
}

TEST(Parser, GoldenTextOfEveryKind) { EXPECT_GOLDEN(to_string(parse_program(kEveryKind))); }

TEST(Parser, RandomProgramsRoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Program p = test::RandomProgram(seed).make();
    std::string text = to_string(p);
    Program q;
    try {
      q = parse_program(text);
    } catch (const IrError& e) {
      FAIL() << "seed " << seed << ": " << e.what() << "\n" << text;
    }
    ASSERT_EQ(to_string(q), text) << "seed " << seed;
    ASSERT_TRUE(equal(p, q)) << "seed " << seed << "\n" << text;
  }
}

TEST(Parser, BuffersOfOneNameGetANumber) {
  Buffer outer = make_buffer("T", ElemType::f32, {1}), inner = make_buffer("T", ElemType::f32, {1});
  Stmt copy = make_store(inner, {0}, load(outer, {0}));
  Program p{"p", {{outer, ParamRole::Input}}, {}, make_allocate(inner, copy)};
  EXPECT_EQ(to_string(p),
            "program p(T: f32[1] input) {\n"
            "  allocate T_1: f32[1] global {\n"
            "    T_1[0] = T[0]\n"
            "  }\n"
            "}\n");
}

TEST(Parser, ModulesAreProgramsOneBehindTheOther) {
  const std::string text =
      "program main(B_packed: f32[4] weight, C: f32[1] output) {\n"
      "  C[0] = B_packed[3]\n"
      "}\n"
      "\n"
      "program pack_B(B: f32[4] weight, B_packed: f32[4] output) {\n"
      "  for i in 0..4 {\n"
      "    B_packed[i] = B[(3 - i)]\n"
      "  }\n"
      "}\n";
  Module m = parse_module(text);
  ASSERT_EQ(m.packs.size(), 1u);
  EXPECT_EQ(to_string(m), text);
  EXPECT_TRUE(equal(m, parse_module(to_string(m))));
}

std::string in_program(const std::string& body) {
  return "program p(A: f32[8] input, C: f32[8] output) {\n" + body + "\n}";
}

std::string body_of(const std::string& body) {
  return to_string(parse_program(in_program(body)).body);
}

TEST(Parser, HandwrittenTextMayRelyOnPrecedence) {
  EXPECT_EQ(body_of("for i in 2..6 { C[i * 2 + 1 - 3] = -A[i] + 1f32 * 2.0f32 }"),
            "for i in 2..2+4 {\n"
            "  C[(((i * 2) + 1) - 3)] = ((-A[i]) + (1.0f32 * 2.0f32))\n"
            "}\n");
  EXPECT_EQ(body_of("if 1 < 2 && 3 >= 4 || !true { C[0] = 0f32 } else if true { C[0] = 1f32 }"),
            "if (((1 < 2) && (3 >= 4)) || (!true)) {\n"
            "  C[0] = 0.0f32\n"
            "} else {\n"
            "  if true {\n"
            "    C[0] = 1.0f32\n"
            "  }\n"
            "}\n");
}

TEST(Parser, AnIfBehindAStoreIsItsPredicateOnlyOnItsLine) {
  EXPECT_EQ(body_of("C[0] = 1f32 if true"), "C[0] = 1.0f32 if true\n");
  EXPECT_EQ(body_of("C[0] = 1f32\nif true { C[1] = 2f32 }"),
            "C[0] = 1.0f32\nif true {\n  C[1] = 2.0f32\n}\n");
}

TEST(Parser, ANegatedConstantIsNotANegativeOne) {
  EXPECT_EQ(body_of("C[0] = (-1f32)"), "C[0] = (-1.0f32)\n");
  EXPECT_EQ(body_of("C[0] = -1f32"), "C[0] = -1.0f32\n");
  EXPECT_EQ(body_of("C[0] = (-inf<f32> + 1f32)"), "C[0] = (-inf<f32> + 1.0f32)\n");
}

TEST(Parser, AVariableAndABufferMayShareAName) {
  std::string text = "for C in 0..8 {\n  C[C] = A[C]\n}\n";
  EXPECT_EQ(body_of(text), text);
}

TEST(Parser, AnE8m0ConstantIsNotAnExponent) {
  std::string text = "program p(S: e8m0[1] output) {\n  S[0] = 1.0e8m0\n}\n";
  EXPECT_EQ(to_string(parse_program(text)), text);
}

struct ParserRefusal {
  const char* name;
  std::string text;
  const char* message;
};

class ParserRefuses : public ::testing::TestWithParam<ParserRefusal> {};

// Marks a part that stands in the text 100000 times. Each test is a process of its own, which reads
// all cases: long texts are written out only where they are parsed.
const char kManyTimes = '\x01';

std::string repeat(const std::string& text) { return kManyTimes + text + kManyTimes; }

std::string written_out(const std::string& text) {
  const size_t first = text.find(kManyTimes), last = text.rfind(kManyTimes);
  if (first == std::string::npos) return text;
  const std::string part = text.substr(first + 1, last - first - 1);
  std::string result = text.substr(0, first);
  for (int i = 0; i < 100000; ++i) result += part;
  return result + text.substr(last + 1);
}

TEST_P(ParserRefuses, WithThePlaceAndTheReason) {
  try {
    parse_program(written_out(GetParam().text));
    FAIL() << "no error";
  } catch (const IrError& e) {
    EXPECT_THAT(e.what(), HasSubstr(GetParam().message));
    EXPECT_THAT(e.what(), HasSubstr("^"));
  }
}

const char* const kTooDeep = "the text nests more than 1000 deep";

const std::vector<ParserRefusal> kRefusals = {
    {"Empty", "", "1:1: expected 'program', got the end of the text"},
    {"NoName", "program (", "1:9: expected the program's name, got '('"},
    {"OpenParams", "program p(A: f32[2] input", "the ')' behind the parameters is missing"},
    {"BadRole", "program p(A: f32[2] in) { A[0] = 0f32 }",
     "1:21: expected input, weight or output, got 'in'"},
    {"BadElement", "program p(A: f33[2] input) { A[0] = 0f32 }",
     "1:14: 'f33' is no element type; known are f64, f32"},
    {"ZeroExtent", "program p(A: f32[0] input) { A[0] = 0f32 }",
     "1:11: buffer 'A': an extent is 0"},
    {"SwizzledRows",
     "program p() { allocate S: f16[8, 48] shared swizzled(48) { barrier<bool>() } }",
     "buffer 'S': rows of 48 elements are swizzled; they must be a power of two long, of 32 bytes "
     "or more, in shared memory"},
    {"SwizzledBytes",
     "program p() { allocate S: f16[8, 8] shared swizzled(8) { barrier<bool>() } }",
     "rows of 8 elements are swizzled; they must be a power of two long, of 32 bytes or more"},
    {"SwizzledScope",
     "program p() { allocate S: f16[8, 64] local swizzled(64) { barrier<bool>() } }",
     "they must be a power of two long, of 32 bytes or more, in shared memory"},
    {"EmptyDim", "program p() dims(m: 8..2) { barrier<bool>() }", "1:18: the range 8..2 is empty"},
    {"SecondDim", "program p() dims(m: 1..2, m: 1..2) { barrier<bool>() }",
     "a second dimension 'm'"},
    {"MoreText", in_program("C[0] = 0f32") + "\nprogram q", "4:1: expected one program"},
    {"EmptyBody", in_program(""), "a body needs at least one statement"},
    {"EmptyBlock", in_program("block b() { }"), "2:11: a block needs at least one statement"},
    {"NoStatement", in_program("+"), "2:1: expected a statement, got '+'"},
    {"UnknownStatement", in_program("loop i"), "2:1: expected a statement (for, block, if"},
    {"UnknownVariable", in_program("C[i] = 0f32"), "2:3: no variable 'i' is known here"},
    {"UnknownBuffer", in_program("D[0] = 0f32"),
     "2:1: no buffer 'D' is known here; known are A, C"},
    {"OutOfScope", in_program("for i in 0..2 { C[i] = 0f32 }\nC[i] = 0f32"),
     "3:3: no variable 'i' is known here; known are none"},
    {"UnknownFunction", in_program("C[0] = sine(A[0])"),
     "2:8: no function 'sine' is known; known are select, ramp"},
    {"ArgumentCount", in_program("C[0] = exp(A[0], A[1])"), "exp: expected 1 arguments, got 2"},
    {"CastCount", in_program("C[0] = cast<f32>(1, 2)"), "cast: expected 1 argument, got 2"},
    {"Lanes", in_program("C[ramp(0, 1, A)] = 0f32"), "no variable 'A' is known here"},
    {"RampLanes", in_program("C[ramp(0, 1, 0)] = 0f32"),
     "ramp: the lanes must be a constant in 1..4096"},
    {"Types", in_program("C[0] = (A[0] + 1)"),
     "2:14: '+' needs both sides of one type, got f32 and index"},
    {"StoreType", in_program("C[0] = 1"), "2:1: store: 'C' holds f32, the value is index"},
    {"Rank", in_program("C[0, 1] = 0f32"), "2:1: store: 'C' has 1 dimensions, got 2 indices"},
    {"FloatWithoutType", in_program("C[0] = 0.5"), "a float names its type, as in 0.5f32"},
    {"BadNumber", in_program("C[0] = 3q"), "2:8: '3q' is no number"},
    {"TooLarge", in_program("C[99999999999999999999] = 0f32"), "digits that fit in 64 bits"},
    {"PredicateOfASum", in_program("C[0] = (A[0] + A[1] if true)"),
     "2:21: only a load may have a predicate"},
    {"LoopKind", in_program("for i in 0..4 vector { C[i] = 0f32 }"),
     "'vector' is no kind of loop; known are serial, parallel, vectorized"},
    {"LoopRange", in_program("for i in 0..4 { for j in i..8 { C[j] = 0f32 } }"),
     "2:29: expected the end of the range as 'min+extent'"},
    {"LoopTooLong", in_program("for i in -9223372036854775807..9 { C[0] = 0f32 }"),
     "the range has more values than 64 bits count"},
    {"IterKind", in_program("block b(v: temporal 8 = 0) { C[v] = 0f32 }"),
     "2:12: expected spatial or reduce, got 'temporal'"},
    {"Scope", in_program("allocate T: f32[1] heap { C[0] = 0f32 }"),
     "2:20: 'heap' is no memory scope; known are global, shared"},
    {"Annotation", in_program("for i in 0..8 @{unroll: yes} { C[i] = 0f32 }"),
     "expected the annotation's value, an integer, got 'yes'"},
    {"OpenString", in_program("for i in 0..8 @{a: \"x} { C[i] = 0f32 }"),
     "the closing \" is missing"},
    {"BadCharacter", in_program("C[0] = 1f32 $"), "2:13: '$' begins no token"},
    {"LetType", in_program("let x: f32q = 1f32 { C[0] = x }"), "'f32q' is no type"},
    {"LetMismatch", in_program("let x: f64 = 1f32 { C[0] = 0f32 }"),
     "the variable is f64, the value f32"},
    {"IfType", in_program("if 1 { C[0] = 0f32 }"),
     "2:1: if: the condition has type index, not bool"},
    {"DotLanes", in_program("C[0] = dot<f32>(1f32, 1f32, broadcast(1f32, 2))"),
     "dot: f32 cannot be summed from f32, f32 and f32x2"},
    {"ChoiceSides", in_program("C[0] = if_then_else<f32>(true, 1, 1f32)"),
     "if_then_else: the sides have types index and f32, not f32"},
    {"ChoiceCondition", in_program("C[0] = if_then_else<f32>(1, 1f32, 1f32)"),
     "if_then_else: the condition has type index, not bool"},
    {"ChoiceLanes", in_program("C[0] = if_then_else<f32>(broadcast(true, 4), 1f32, 1f32)"),
     "if_then_else: the condition's lanes do not match the sides'"},
    {"DeepParentheses", in_program("C[0] = " + repeat("(")), kTooDeep},
    {"DeepSigns", in_program("C[0] = " + repeat("-")), kTooDeep},
    {"DeepCalls", in_program("C[0] = " + repeat("exp(")), kTooDeep},
    {"LongChain", in_program("C[0] = 1f32" + repeat(" + 1f32")),
     "the expression has more than 500 operators"},
    {"LongChainsInside", in_program("C[0] = A[0] * (1f32" + repeat(" + (1f32 * 2f32)") + ")"),
     "the expression has more than 500 operators"},
    {"DeepIndices", in_program("C[0] = " + repeat("A[")), kTooDeep},
    {"DeepBodies", in_program(repeat("if true {")), kTooDeep},
    {"DeepElse", in_program(repeat("if true { C[0] = 0f32 } else ")), kTooDeep},
};

INSTANTIATE_TEST_SUITE_P(Texts, ParserRefuses, ::testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Parser, TheCaretStandsUnderThePlace) {
  try {
    parse_program(in_program("  C[i] = 0f32"));
    FAIL() << "no error";
  } catch (const IrError& e) {
    EXPECT_STREQ(e.what(),
                 "2:5: no variable 'i' is known here; known are none\n"
                 "  C[i] = 0f32\n"
                 "    ^");
  }
}

// A truncated text is refused or read, with no other effect.
TEST(Parser, TruncatedTextIsRefused) {
  std::string text = to_string(parse_program(kEveryKind));
  for (size_t n = 0; n + 2 < text.size(); ++n) {
    EXPECT_THROW(parse_program(text.substr(0, n)), IrError) << text.substr(0, n);
  }
}

}  // namespace
}  // namespace tilewright
