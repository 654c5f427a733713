#include "ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text/parser.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Program program_verify(const std::string& body) {
  return parse_program(
      "program p(A: f32[8] input, B: f32[8, 8] weight, C: f32[8] output) "
      "dims(m: 1..8) {\n" +
      body + "\n}");
}

std::vector<std::string> messages(const Program& p) {
  std::vector<std::string> list;
  for (const Violation& v : verify(p)) {
    list.push_back(v.message);
    EXPECT_NE(v.where, nullptr);
  }
  return list;
}

void expect_legal(const std::string& body) {
  EXPECT_THAT(messages(program_verify(body)), ::testing::IsEmpty()) << body;
}

void expect_refused_verify(const std::string& body, const std::string& message) {
  EXPECT_THAT(messages(program_verify(body)), ::testing::ElementsAre(HasSubstr(message))) << body;
}

// A block that sums a row of B into C, under a test's loops and bindings.
std::string row_sum(const std::string& loops, const std::string& i, const std::string& k,
                    const std::string& where = "") {
  int depth = static_cast<int>(std::count(loops.begin(), loops.end(), '{'));
  return loops + "block C(vi: spatial 8 = " + i + ", vk: reduce 8 = " + k + ") " + where +
         "{ init { C[vi] = 0f32 } C[vi] = C[vi] + B[vi, vk] }" + std::string(depth, '}');
}

const std::string kLoops = "for i in 0..8 { for k in 0..8 { ";

TEST(Verify, LegalProgramsPass) {
  expect_legal("for i in 0..8 { C[i] = A[i] }");
  expect_legal(row_sum(kLoops, "i", "k"));
  expect_legal(row_sum("for f in 0..64 { ", "floordiv(f, 8)", "floormod(f, 8)"));
  expect_legal(
      row_sum("for i in 0..8 parallel { for ko in 0..2 { for ki in 0..4 { ", "i", "ko * 4 + ki"));
  expect_legal(row_sum("for i in 0..8 { for ko in 0..3 { for ki in 0..3 { ", "i", "ko * 3 + ki",
                       "where (ko * 3 + ki < 8) "));
  expect_legal(row_sum("for i in 2..10 { for k in 1..9 { ", "i - 2", "k - 1"));
  expect_legal(row_sum("for again in 0..2 { " + kLoops, "i", "k"));
  expect_legal("for i in 0..8 block_x { for j in 0..1 thread_x { C[i] = A[i] } }");
  expect_legal("let x: f32 = 1f32 { allocate T: f32[1] local { T[0] = x } }");
  expect_legal("block root() { alloc T: f32[m] local for i in 0..m { T[i] = A[i] } }");
}

TEST(Verify, ABlockInsideABlockIsBoundToItsIterators) {
  expect_legal(R"(
    for io in 0..2 { for ko in 0..2 {
      block outer(vio: spatial 2 = io, vko: reduce 2 = ko) {
        for ii in 0..4 { for ki in 0..4 {
          block inner(vi: spatial 8 = vio * 4 + ii, vk: reduce 8 = vko * 4 + ki) {
            C[vi] = C[vi] + B[vi, vk]
          }
        } }
      }
    } })");
}

TEST(Verify, VariablesAreUsedWhereTheyAreBound) {
  Buffer c = make_buffer("C", ElemType::f32, {8});
  Var i("i"), dim("m");
  Stmt store = make_store(c, {i}, make_float(ElemType::f32, 0));
  Program p{"p", {{c, ParamRole::Output}}, {}, store};
  EXPECT_THAT(messages(p), ::testing::ElementsAre(HasSubstr("'i' is used where it is not bound")));
  p.body = make_seq({make_for(i, 0, 8, ForKind::Serial, store), store});
  EXPECT_THAT(messages(p), ::testing::ElementsAre(HasSubstr("'i' is used where it is not bound")));
  p.body = make_for(i, 0, dim, ForKind::Serial, store);
  EXPECT_THAT(messages(p), ::testing::ElementsAre(HasSubstr("'m' is used where it is not bound")));
  p.body = make_for(i, 0, 8, ForKind::Serial, make_for(i, 0, 8, ForKind::Serial, store));
  EXPECT_THAT(messages(p),
              ::testing::ElementsAre(HasSubstr("'i' binds a variable that is bound around it")));
}

TEST(Verify, ABlocksBodyDoesNotUseTheLoopsAroundIt) {
  expect_refused_verify("for i in 0..8 { block b(v: spatial 8 = i) { C[v] = A[i] } }",
                        "the body of a block uses the loop 'i' around it");
  expect_legal("for i in 0..8 { block scope() { C[i] = A[i] } }");
}

TEST(Verify, NamesAreUnique) {
  expect_refused_verify(
      "block root() { for i in 0..8 { C[i] = A[i] }\n for i in 0..8 { C[i] = A[i] } }",
      "two loops have the name 'i'");
  expect_legal("for i in 0..8 { C[i] = A[i] }\n for i in 0..8 { C[i] = A[i] }");  // lowered
  expect_refused_verify("block b() { C[0] = A[0] }\n block b() { C[1] = A[1] }",
                        "two blocks have the name 'b'");
  Buffer a = make_buffer("A", ElemType::f32, {1}), b = make_buffer("A", ElemType::f32, {1});
  Stmt copy = make_store(b, {0}, load(a, {0}));
  EXPECT_THAT(messages({"p", {{a, ParamRole::Input}, {b, ParamRole::Output}}, {}, copy}),
              ::testing::ElementsAre("two parameters have the name 'A'"));
  EXPECT_THAT(messages({"p",
                        {{a, ParamRole::Output}},
                        {{Var("m"), 1, 2}, {Var("m"), 1, 2}},
                        make_store(a, {0}, make_float(ElemType::f32, 0))}),
              ::testing::ElementsAre("two dimensions have the name 'm'"));
}

TEST(Verify, BuffersAreAllocatedAroundTheirUse) {
  Buffer c = make_buffer("C", ElemType::f32, {1}), t = make_buffer("T", ElemType::f32, {1});
  Stmt use = make_store(c, {0}, load(t, {0}));
  Stmt fill = make_store(t, {0}, make_float(ElemType::f32, 0));
  Program p{"p", {{c, ParamRole::Output}}, {}, make_seq({make_allocate(t, fill), use})};
  EXPECT_THAT(messages(p), ::testing::ElementsAre(HasSubstr("'T' is no parameter and is not")));
  p.body = make_seq({make_block("b", {}, fill, {}, {}, {t}), use});
  EXPECT_THAT(messages(p), ::testing::ElementsAre(HasSubstr("'T' is no parameter and is not")));
  p.body = make_allocate(t, make_allocate(t, fill));
  EXPECT_THAT(messages(p), ::testing::ElementsAre(HasSubstr("the buffer 'T' is allocated twice")));
}

TEST(Verify, InputsAndWeightsAreNotStoredTo) {
  expect_refused_verify("A[0] = 1f32", "'A' is stored to, and is no output");
  expect_refused_verify("B[0, 0] = 1f32", "'B' is stored to, and is no output");
}

TEST(Verify, IndicesStayInside) {
  expect_refused_verify("for i in 0..9 { C[0] = A[i] }",
                        "'A' is read at 0..8 in dimension 0, which has 8 elements");
  expect_refused_verify("for i in 0..8 { C[i - 1] = A[i] }",
                        "'C' is stored to at -1..6 in dimension 0");
  expect_refused_verify("for i in 0..4 { for j in 0..4 { C[j] = B[i, i * 2 + j] } }",
                        "'B' is read at 0..9 in dimension 1");
  expect_refused_verify("for i in 0..8 { block b(v: spatial 8 = i) { C[v] = A[v + 1] } }",
                        "'A' is read at 1..8");
  // Not decided: conditions, sums of dependent parts, and loops that may not run.
  expect_legal("for i in 0..9 { if i < 8 { C[i] = A[i] } }");
  expect_legal("for i in 0..9 { C[0] = select(i < 8, A[i], 0f32) }");
  expect_legal("for i in 0..9 { C[0] = if_then_else<f32>(i < 8, A[i], 0f32) }");
  expect_legal("for i in 0..9 { C[0] = (A[i] if i < 8) }");
  expect_legal("for i in 0..9 { C[i] = 0f32 if i < 8 }");
  expect_legal("for i in 0..8 { C[i - i * 1] = A[i] }");
  expect_legal("for i in 0..m { C[8] = A[i] }");
  expect_legal("for i in 0..9 { prefetch<bool>(A[i], 3) }");
  expect_legal("for i in 0..4 { block b(v: spatial 8 = i) { C[v] = A[v + 4] } }");
  expect_legal(
      "for i in 0..8 { block b(v: spatial 8 = i, w: spatial 8 = 7 - i) { C[v] = A[v + w] } }");
}

// Numbers beyond 64 bits are not decided, and nothing overflows (the sanitizers check this).
TEST(Verify, NumbersBeyond64BitsAreNotDecided) {
  const std::string most = "9223372036854775807";
  expect_legal("for i in 0..8 { C[floormod(7 + i + " + most + ", 8)] = A[i] }");
  expect_legal("for i in 0..8 { if 7 + i + " + most + " < 8 { C[7 + (i + " + most +
               ")] = A[i] } }");
  for (const std::string& binding :
       {"i + 7 + " + most, "i * " + most + " * 3", "i * 4 + 2 - " + most + " * 2",
        "floormod(i * " + most + " + i * " + most + ", 8)"}) {
    SCOPED_TRACE(binding);
    EXPECT_NO_THROW(expect_legal("for i in 0..8 { block b(v: spatial 8 = " + binding +
                                 ") { C[floormod(v, 8)] = A[0] } }"));
  }
  expect_legal("for i in " + most + ".." + most + " + 2 { C[0] = A[floormod(i, 8)] }");
}

TEST(Verify, BindingsStayInsideTheirExtents) {
  expect_refused_verify(
      "for i in 0..9 { block b(v: spatial 8 = i) { C[floormod(v, 8)] = A[0] } }",
      "block 'b': the spatial iterator 'v' takes the values 0..8, and has the extent 8");
  expect_refused_verify(
      "for i in 0..8 { block b(v: spatial 8 = i - 1) { C[floormod(v, 8)] = A[0] } }",
      "takes the values -1..6");
  expect_legal("for i in 0..9 { block b(v: spatial 8 = i) where (i < 8) { C[v] = A[v] } }");
  expect_legal("for i in 0..9 { if i < 8 { block b(v: spatial 8 = i) { C[v] = A[v] } } }");
}

TEST(Verify, AReduceIteratorTakesEachValueOnce) {
  const std::string once =
      "block 'C': the reduce iterator 'vk' does not take each value of its extent 8 once";
  expect_refused_verify(row_sum("for i in 0..8 { for k in 0..4 { ", "i", "k"),
                        once + ": its binding covers 4 values");
  expect_refused_verify(row_sum("for i in 0..8 { for k in 0..4 { ", "i", "k * 2"),
                        once + ": its binding leaves gaps");
  expect_refused_verify(row_sum("for i in 0..8 { for k in 0..4 { for l in 0..5 { ", "i", "k + l"),
                        once);
  expect_refused_verify(row_sum("for i in 0..8 { for k in 0..7 { ", "i", "k + 1"), once);
  expect_refused_verify(row_sum("for i in 0..8 { for k in 0..3 { for l in 0..2 { ", "i",
                                "k * 2 + l", "where (k * 2 + l < 8) "),
                        once);
  // A condition on one loop alone may leave any values, so nothing is decided.
  expect_legal(row_sum("for i in 0..8 { for k in 0..3 { for l in 0..4 { ", "i", "k * 3 + l",
                       "where (l < 3 && k * 3 + l < 8) "));
  // The same holds where the condition leaves less than the extent.
  expect_legal(row_sum("for i in 0..8 { for k in 0..3 { for l in 0..4 { ", "i", "k * 2 + l",
                       "where (k * 2 + l < 1) "));
  expect_refused_verify(row_sum("for i in 0..8 { for k in 0..8 { ", "i", "floordiv(k, 2)"), once);
}

// The last tile of a split with a remainder, and an outer loop of which one iteration remains.
TEST(Verify, ConditionsCutReductions) {
  expect_legal(row_sum("for i in 0..8 { for k in 0..3 { for l in 0..3 { ", "i", "k * 3 + l",
                       "where (k * 3 + l < 8) "));
  expect_legal(row_sum("for i in 0..8 { for k in 0..2 { for l in 0..9 { ", "i", "k * 8 + l",
                       "where (k * 8 + l < 8) "));
}

TEST(Verify, IteratorsDoNotShareAPartOfALoop) {
  expect_refused_verify(row_sum("for i in 0..8 { ", "i", "i"),
                        "the spatial iterator 'vi' and 'vk' are bound to one part of a loop");
  expect_refused_verify(row_sum("for f in 0..64 { for k in 0..8 { ", "floormod(f, 8)",
                                "floormod(f, 8)", "where (k < 1) "),
                        "bound to one part of a loop");
}

TEST(Verify, NoLoopRepeatsAReduction) {
  expect_refused_verify(
      row_sum(kLoops + "for again in 0..2 { ", "i", "k"),
      "no iterator is bound to the loop 'again', which repeats the reduction over 'k'");
  expect_legal(row_sum(kLoops + "for once in 0..1 { ", "i", "k"));
  expect_legal(row_sum(kLoops + "for t in 0..32 thread_x { ", "i", "k"));
  expect_legal(row_sum(kLoops + "for t in 0..2 { ", "i", "k", "where (t < 1) "));
}

TEST(Verify, ParallelLoopsCarryNoReduction) {
  for (const char* kind : {"parallel", "block_x", "block_y", "block_z"}) {
    expect_refused_verify(
        row_sum(std::string("for i in 0..8 { for k in 0..8 ") + kind + " { ", "i", "k"),
        std::string("the ") + kind + " loop 'k' carries the reduction 'vk' of block 'C'");
  }
  // Also through the enclosing block.
  EXPECT_THAT(
      messages(program_verify(R"(
    for ko in 0..2 parallel {
      block outer(vko: reduce 2 = ko) {
        for i in 0..8 { for ki in 0..4 {
          block inner(vi: spatial 8 = i, vk: reduce 8 = vko * 4 + ki) { C[vi] = C[vi] + B[vi, vk] }
        } }
      }
    })")),
      ::testing::ElementsAre(HasSubstr("carries the reduction 'vko' of block 'outer'"),
                             HasSubstr("'ko' carries the reduction 'vk' of block 'inner'")));
}

TEST(Verify, AxesDoNotNestInThemselves) {
  for (const char* kind :
       {"block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z", "warp"}) {
    std::string k(kind);
    expect_refused_verify(
        "for i in 0..2 " + k + " { for j in 0..4 " + k + " { C[i * 4 + j] = A[0] } }",
        "the loop 'j' is a " + k + " loop inside the " + k + " loop 'i'");
  }
  expect_legal("for i in 0..2 parallel { for j in 0..4 parallel { C[i * 4 + j] = A[0] } }");
  expect_legal("for i in 0..2 thread_x { C[i] = A[0] }\n for j in 0..4 thread_x { C[j] = A[0] }");
}

TEST(Verify, LoweredStatementsDoNotStandBesideBlocks) {
  expect_refused_verify("block b() { let x: f32 = 1f32 { C[0] = x } }",
                        "a let stands in a program with blocks");
  expect_refused_verify("block b() { allocate T: f32[1] local { T[0] = 1f32 } }",
                        "an allocate stands in a program with blocks");
}

TEST(Verify, ThrowsWithThePlaceMarked) {
  EXPECT_NO_THROW(verify_or_throw(program_verify("C[0] = A[0]"), "split"));
  try {
    verify_or_throw(program_verify("C[0] = A[0]\nA[0] = 1f32\nC[8] = A[9]"), "split");
    FAIL() << "no error";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("the program 'p' is not legal after split: 'A' is stored to, and "
                          "is no output (and 2 more)"));
    EXPECT_THAT(e.what(), HasSubstr("  A[0] = 1.0f32\n  ^^^^^^^^^^^^^ 'A' is stored to"));
  }
}

}  // namespace
}  // namespace tilewright
