#include "ir/interpreter/interpreter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

NdArray array(std::vector<double> data, ElemType elem = ElemType::f32) {
  auto count = static_cast<int64_t>(data.size());
  return {elem, {count}, std::move(data)};
}

// Runs a body that reads A: f32[8] = 0..7 and writes C: f32[8].
std::vector<double> run(const std::string& body) {
  NdArrays arrays{{"A", array({0, 1, 2, 3, 4, 5, 6, 7})}};
  interpret(parse_program("program p(A: f32[8] input, C: f32[8] output) {\n" + body + "\n}"),
            arrays);
  return arrays.at("C").data;
}

void expect_fault(const std::string& body, const std::string& message) {
  try {
    run(body);
    ADD_FAILURE() << "no error for: " << body;
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), HasSubstr(message));
    EXPECT_THAT(e.what(), HasSubstr("^^^"));  // the statement is marked
  }
}

const std::string kCopy = "for i in 0..8 { C[i] = A[i] }\n";

TEST(Interpreter, MatmulWithInitAndReduction) {
  Program p = parse_program(R"(
program matmul(A: f32[2, 3] input, B: f32[3, 2] weight, C: f32[2, 2] output) {
  for i in 0..2 { for j in 0..2 { for k in 0..3 {
    block C(vi: spatial 2 = i, vj: spatial 2 = j, vk: reduce 3 = k) {
      init { C[vi, vj] = 0.0f32 }
      C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    }
  } } }
})");
  NdArrays arrays{{"A", {ElemType::f32, {2, 3}, {1, 2, 3, 4, 5, 6}}},
                  {"B", {ElemType::f32, {3, 2}, {1, 0, 0, 1, 1, 1}}}};
  interpret(p, arrays);
  EXPECT_THAT(arrays.at("C").data, ElementsAre(4, 5, 10, 11));
  EXPECT_THAT(arrays.at("C").shape, ElementsAre(2, 2));
}

// Two lanes, each a sum of two products, with one rounding at the end.
TEST(Interpreter, DotSumsGroupsOfLanes) {
  Program p = parse_program(R"(
program p(A: u8[2] input, B: i8[4] input, C: i32[2] output) {
  C[ramp(0, 1, 2)] = dot<i32x2>(broadcast(10i32, 2), A[ramp(0, 1, 2)], B[ramp(0, 1, 4)])
})");
  EXPECT_EQ(to_string(parse_program(to_string(p))), to_string(p));
  NdArrays arrays{{"A", {ElemType::u8, {2}, {200, 255}}},
                  {"B", {ElemType::i8, {4}, {-128, -128, 1, 2}}}};
  interpret(p, arrays);
  EXPECT_THAT(arrays.at("C").data, ElementsAre(10 - 455 * 128, 10 + 200 + 510));
}

// A tile of 2 x 2 accumulators with k = 32: b holds pairs along k, one column after the other.
TEST(Interpreter, DotMultipliesTiles) {
  Program p = parse_program(R"(
program p(A: bf16[64] input, B: bf16[64] input, C: f32[4] output) {
  C[ramp(0, 1, 4)] = dot<f32x4>(broadcast(1f32, 4), A[ramp(0, 1, 64)], B[ramp(0, 1, 64)])
})");
  NdArrays arrays{{"A", {ElemType::bf16, {64}, std::vector<double>(64, 0)}},
                  {"B", {ElemType::bf16, {64}, std::vector<double>(64, 0)}}};
  std::vector<double>&a = arrays.at("A").data, &b = arrays.at("B").data;
  for (size_t p = 0; p < 4; ++p) {
    a[p] = static_cast<double>(p + 1);
    a[32 + p] = static_cast<double>(10 * (p + 1));
  }
  const std::vector<double> pairs = {1, 1, 0, 1, 1, 1, 2, 0};
  std::copy(pairs.begin(), pairs.end(), b.begin());
  interpret(p, arrays);
  EXPECT_THAT(arrays.at("C").data, ElementsAre(11, 9, 101, 81));
}

// Two lanes of two terms, with separate elements in both operands.
TEST(Interpreter, DotTakesTheTermsOfEachLane) {
  Program p = parse_program(R"(
program p(A: bf16[4] input, B: bf16[4] input, C: f32[2] output) {
  C[ramp(0, 1, 2)] = dot<f32x2>(broadcast(1f32, 2), A[ramp(0, 1, 4)], B[ramp(0, 1, 4)])
})");
  NdArrays arrays{{"A", {ElemType::bf16, {4}, {1, 2, 3, 4}}},
                  {"B", {ElemType::bf16, {4}, {10, 20, 30, 40}}}};
  interpret(p, arrays);
  EXPECT_THAT(arrays.at("C").data, ElementsAre(1 + 10 + 40, 1 + 90 + 160));
}

TEST(Interpreter, InitRunsWheneverTheReduceIteratorsAreAtZero) {
  // The reduction split in two loops: init must run once, at ko = ki = 0.
  EXPECT_EQ(run(R"(
    for i in 0..8 { for ko in 0..2 { for ki in 0..4 {
      block s(vi: spatial 8 = i, vk: reduce 8 = ko * 4 + ki) {
        init { C[vi] = 100f32 }
        C[vi] = C[vi] + A[vk]
      }
    } } })"),
            std::vector<double>(8, 128));
  // With no reduce iterator, init always runs.
  EXPECT_EQ(run(R"(
    for i in 0..8 { block s(vi: spatial 8 = i) { init { C[vi] = 5f32 } C[vi] = C[vi] + A[vi] } })"),
            (std::vector<double>{5, 6, 7, 8, 9, 10, 11, 12}));
}

TEST(Interpreter, AllKindsOfLoopsRunEveryIteration) {
  for (const char* kind : {"serial", "parallel", "vectorized", "unrolled", "block_x", "block_y",
                           "block_z", "thread_x", "thread_y", "thread_z", "warp"}) {
    EXPECT_EQ(run(std::string("for i in 2..2+8 ") + kind + " { C[i - 2] = A[i - 2] * 2f32 }"),
              (std::vector<double>{0, 2, 4, 6, 8, 10, 12, 14}))
        << kind;
  }
}

TEST(Interpreter, ABlocksPredicateGuardsItsInitAndBody) {
  EXPECT_EQ(run(R"(
    for o in 0..3 { for i in 0..3 {
      block b(v: spatial 8 = o * 3 + i) where (o * 3 + i < 8) { C[v] = A[v] }
    } })"),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Interpreter, GuardsKeepLoadsInside) {
  std::vector<double> shifted{0, 0, 0, 1, 2, 3, 4, 5};
  EXPECT_EQ(run("for i in 0..8 { C[i] = select(i >= 2, A[i - 2], 0f32) }"), shifted);
  EXPECT_EQ(run("for i in 0..8 { C[i] = if_then_else<f32>(i < 2, 0f32, A[i - 2]) }"), shifted);
  EXPECT_EQ(run("for i in 0..8 { C[i] = (A[i - 2] if i >= 2) }"), shifted);
  EXPECT_EQ(run("for i in 0..8 { if i >= 2 { C[i] = A[i - 2] } else { C[i] = 0f32 } }"), shifted);
  EXPECT_EQ(
      run("for i in 0..8 { C[i] = 0f32 }\n for i in 0..20 { C[i] = A[i - 2] if i < 8 && i >= 2 }"),
      shifted);
}

TEST(Interpreter, VectorsLoadStoreAndSelectByLane) {
  EXPECT_EQ(run("C[ramp(0, 1, 8)] = A[ramp(7, -1, 8)] * broadcast(2f32, 8)"),
            (std::vector<double>{14, 12, 10, 8, 6, 4, 2, 0}));
  EXPECT_EQ(run("C[ramp(0, 1, 8)] = broadcast(A[3], 8)"), std::vector<double>(8, 3));
  // Inactive lanes read as zero and may lie outside the buffer.
  EXPECT_EQ(run("C[ramp(0, 1, 8)] = (A[ramp(4, 1, 8)] if ramp(4, 1, 8) < broadcast(8, 8))"),
            (std::vector<double>{4, 5, 6, 7, 0, 0, 0, 0}));
  EXPECT_EQ(run("C[ramp(0, 1, 8)] = select(ramp(4, 1, 8) < broadcast(8, 8), A[ramp(4, 1, 8)], "
                "broadcast(9f32, 8))"),
            (std::vector<double>{4, 5, 6, 7, 9, 9, 9, 9}));
  EXPECT_EQ(run(kCopy + "C[ramp(6, 1, 4)] = broadcast(9f32, 4) if ramp(6, 1, 4) < broadcast(8, 4)"),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 9, 9}));
  EXPECT_EQ(run("let x: f32x8 = A[ramp(0, 1, 8)] { C[ramp(0, 1, 8)] = x + x }"),
            (std::vector<double>{0, 2, 4, 6, 8, 10, 12, 14}));
}

TEST(Interpreter, ArithmeticRoundsToTheType) {
  EXPECT_EQ(run("for i in 0..8 { C[i] = 16777216f32 + 1f32 }")[0], 16777216);
  EXPECT_EQ(run("for i in 0..8 { C[i] = cast<f32>(2048f16 + 1f16) }")[0], 2048);
  EXPECT_EQ(run("for i in 0..8 { C[i] = cast<f32>(127i8 + 1i8) }")[0], -128);
  EXPECT_EQ(run("for i in 0..8 { C[i] = cast<f32>(3u4 - 5u4) }")[0], 14);
  EXPECT_EQ(run("for i in 0..8 { C[i] = cast<f32>(cast<i8>(-3.7f32)) }")[0], -3);
  EXPECT_EQ(run("for i in 0..8 { C[i] = cast<f32>(floordiv(-7, 2) * 10 + floormod(-7, 2)) }")[0],
            -39);
  EXPECT_EQ(run("for i in 0..8 { C[i] = cast<f32>(floordiv(7, -2) * 10 + floormod(7, -2)) }")[0],
            -41);
  EXPECT_EQ(run("for i in 0..8 { C[i] = round(2.5f32) }")[0], 2);
  EXPECT_EQ(run("for i in 0..8 { C[i] = exp(1f32) }")[0], static_cast<float>(std::exp(1.0)));
}

TEST(Interpreter, BitcastsCutBitsLowestLaneFirst) {
  EXPECT_EQ(run("for i in 0..8 { C[i] = bitcast<f32>(1073741824u32) }")[0], 2);
  EXPECT_EQ(run("let x: u8x4 = bitcast<u8x4>(67305985u32) { C[ramp(0, 1, 4)] = cast<f32x4>(x)\n"
                "C[ramp(4, 1, 4)] = cast<f32x4>(x) }"),
            (std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4}));
  EXPECT_EQ(run("let x: u4x8 = bitcast<u4x8>(1985229328u32) { C[ramp(0, 1, 8)] = cast<f32x8>(x) }"),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Interpreter, DynamicDimensionsSizeShapesAndLoops) {
  Program p = parse_program(R"(
program p(A: f32[m] input, C: f32[m] output) dims(m: 1..64) {
  block root() {
    alloc T: f32[m] global
    for i in 0..m { T[i] = A[i] + 1f32 }
    for i in 0..m { C[i] = T[m - 1 - i] }
  }
})");
  NdArrays arrays{{"A", array({1, 2, 3})}};
  interpret(p, arrays, {{"m", 3}});
  EXPECT_THAT(arrays.at("C").data, ElementsAre(4, 3, 2));
  EXPECT_THROW(interpret(p, arrays), IrError);
  EXPECT_THROW(interpret(p, arrays, {{"m", 65}}), IrError);
  EXPECT_THROW(interpret(p, arrays, {{"m", 4}}), IrError);  // A has 3
}

TEST(Interpreter, ModulesPackFirst) {
  Module m = parse_module(R"(
program main(B_packed: f32[4] weight, C: f32[4] output) {
  for i in 0..4 { C[i] = B_packed[i] * 10f32 }
}
program pack_B(B: f32[3] weight, B_packed: f32[4] output) {
  for i in 0..4 { B_packed[i] = (B[i] if i < 3) }
})");
  NdArrays arrays{{"B", array({1, 2, 3})}};
  interpret(m, arrays);
  EXPECT_THAT(arrays.at("C").data, ElementsAre(10, 20, 30, 0));
  EXPECT_EQ(arrays.count("B_packed"), 0u);
}

TEST(Interpreter, ThreadsMeetAtBarriers) {
  const std::string reverse = R"(
    block b() {
      alloc S: f32[8] shared
      for t in 0..8 thread_x {
        S[t] = A[t]
        BARRIER
        C[t] = S[7 - t]
      }
    })";
  std::string with = reverse, without = reverse;
  with.replace(with.find("BARRIER"), 7, "barrier<bool>()");
  without.replace(without.find("BARRIER"), 7, "");
  EXPECT_EQ(run(with), (std::vector<double>{7, 6, 5, 4, 3, 2, 1, 0}));
  expect_fault(without, "reads S[7], an element that was never written");
}

TEST(Interpreter, BarriersHoldAcrossNestedThreadLoopsAndSerialOnes) {
  EXPECT_EQ(run(R"(
    block b() {
      alloc S: f32[8] shared
      for y in 0..2 thread_y { for x in 0..4 thread_x {
        block own() {
          alloc R: f32[1] local
          R[0] = 0f32
          for step in 0..3 {
            if step < 3 { S[y * 4 + x] = A[y * 4 + x] + cast<f32>(step) }
            let unused: index = step { barrier<bool>() }
            R[0] = R[0] + S[7 - (y * 4 + x)]
            barrier<bool>()
          }
          C[y * 4 + x] = R[0]
        }
      } }
    })"),
            (std::vector<double>{24, 21, 18, 15, 12, 9, 6, 3}));
}

TEST(Interpreter, ABarrierThatSomeThreadsMissIsAFault) {
  expect_fault("for t in 0..8 thread_x { C[t] = A[t]\n if t < 3 { barrier<bool>() } }",
               "3 of 8 threads reach a barrier that the others do not");
}

TEST(Interpreter, AsynchronousStoresLandWhenTheirGroupIsWaitedFor) {
  const std::string issue = R"(
    block b() {
      alloc S: f32[8] shared
      for i in 0..4 { S[i] <-async A[i] }
      async_commit<bool>()
      for i in 4..8 { S[i] <-async A[i] }
      async_commit<bool>()
      async_wait<bool>(WAIT)
      for i in 0..4 { C[i] = S[i] }
      for i in 4..8 { C[i] = S[i] }
    })";
  auto with = [&](const std::string& groups) {
    std::string text = issue;
    return text.replace(text.find("WAIT"), 4, groups);
  };
  EXPECT_EQ(run(with("0")), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  expect_fault(with("1"), "reads S[4], an element that was never written");
  expect_fault(with("2"), "reads S[0], an element that was never written");
}

TEST(Interpreter, AMissingWaitIsFoundEvenWhereOldValuesStand) {
  expect_fault(R"(
    block b() {
      alloc S: f32[1] shared
      S[0] = 1f32
      S[0] <-async A[0]
      async_commit<bool>()
      C[0] = S[0]
    })",
               "reads S[0], an element that was never written");
}

TEST(Interpreter, ThreadsHaveQueuesOfTheirOwn) {
  // Each thread waits for its own group. Then one wait behind the loop serves all threads.
  EXPECT_EQ(run(R"(
    block b() {
      alloc S: f32[8] shared
      for t in 0..8 thread_x {
        S[t] <-async A[t]
        async_commit<bool>()
      }
      async_wait<bool>(0)
      for t in 0..8 thread_x { C[t] = S[t] }
    })"),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  expect_fault(R"(
    block b() {
      alloc S: f32[8] shared
      for t in 0..8 thread_x {
        S[t] <-async A[t]
        async_commit<bool>()
        if t == 7 { async_wait<bool>(0) }
        if t == 7 { C[t] = S[0] }
      }
    })",
               "reads S[0]");
}

TEST(Interpreter, AllocationsAreFreshOnEveryEntry) {
  expect_fault(R"(
    for i in 0..8 {
      block b() {
        alloc T: f32[1] local
        if i == 0 { T[0] = A[0] }
        C[i] = T[0]
      }
    })",
               "(i = 1)");
}

TEST(Interpreter, FaultsNameTheElementAndTheVariables) {
  expect_fault("for i in 0..9 { C[0] = A[i] }", "reads A[8], outside of the shape [8] (i = 8)");
  expect_fault("for i in 0..9 { C[i - 1] = A[0] }", "stores C[-1], outside of the shape [8]");
  expect_fault("C[ramp(1, 1, 8)] = A[ramp(0, 1, 8)]", "stores C[8], outside");
  expect_fault("C[ramp(0, 1, 8)] = A[ramp(1, 1, 8)]", "reads A[8], outside");
  expect_fault("C[0] = C[1]", "reads C[1], an element that was never written");
  expect_fault("A[0] = 1f32", "stores into 'A', which is an input");
  expect_fault("C[0] = A[floordiv(1, 0)]", "an integer is divided by zero");
  expect_fault("for i in 0..7 { C[i] = A[i] }", "C[7], an element of an output, is not written");
  expect_fault("for i in 0..9 { block b(v: spatial 8 = i) { C[v - v] = A[0] } }",
               "block 'b': the iterator 'v' is 8, outside of its extent 8");
}

// A buffer's padding may be copied, but nobody may compute with it or output it.
TEST(Interpreter, CopiesOfUnwrittenElementsAreUnwritten) {
  auto through = [](const std::string& copy, const std::string& last) {
    return "block root() { alloc T: f32[9] global alloc U: f32[9] global "
           "for i in 0..8 { T[i] = A[i] } " +
           copy + " " + last + " }";
  };
  const std::string unwritten = "reads U[8], an element that was never written";
  for (const char* copy : {"for j in 0..9 { U[j] = T[j] }", "U[ramp(0, 1, 9)] = T[ramp(0, 1, 9)]",
                           "for j in 0..9 { U[j] <-async T[j] } async_commit<bool>() "
                           "async_wait<bool>(0)",
                           "for j in 0..9 { U[j] = select(j > 0, T[j], A[0]) }",
                           "U[ramp(0, 1, 9)] = select(ramp(0, 1, 9) > broadcast(0, 9), "
                           "T[ramp(0, 1, 9)], A[broadcast(0, 9)])"}) {
    EXPECT_EQ(run(through(copy, "for k in 0..8 { C[k] = U[k] }")), run(kCopy)) << copy;
    expect_fault(through(copy, "for k in 0..8 { C[k] = U[k + 1] }"), unwritten);
    expect_fault(through(copy, "for k in 0..9 { T[k] = U[k] + 1f32 } " + kCopy), unwritten);
  }
}

// Only the side that is taken counts.
TEST(Interpreter, AChoiceOfAWrittenElementIsWritten) {
  for (const char* copy : {"for i in 0..8 { T[i] = select(i < 4, A[i], U[i]) } "
                           "for i in 4..8 { T[i] = A[i] }",
                           "T[ramp(0, 1, 8)] = select(ramp(0, 1, 8) < broadcast(4, 8), "
                           "A[ramp(0, 1, 8)], U[ramp(0, 1, 8)]) for i in 4..8 { T[i] = A[i] }"}) {
    EXPECT_EQ(run(std::string("block b() { alloc T: f32[8] global alloc U: f32[8] global ") + copy +
                  " for k in 0..8 { C[k] = T[k] } }"),
              run(kCopy));
  }
}

TEST(Interpreter, ACopyOfAnUnwrittenElementHidesWhatStoodThere) {
  expect_fault(R"(
    block b() {
      alloc T: f32[2] local
      T[0] = A[0]
      T[0] = T[1]
      C[0] = T[0] * 2f32
    })",
               "reads T[0], an element that was never written");
}

TEST(Interpreter, UnboundNamesAreFaults) {
  Buffer c = make_buffer("C", ElemType::f32, {1}), other = make_buffer("T", ElemType::f32, {1});
  auto message = [&](const Stmt& body) {
    NdArrays arrays;
    try {
      interpret(Program{"p", {{c, ParamRole::Output}}, {}, body}, arrays);
    } catch (const InternalError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(make_store(c, {Var("i")}, make_float(ElemType::f32, 0))),
              HasSubstr("the variable 'i' is used where it is not bound"));
  EXPECT_THAT(message(make_store(c, {0}, load(other, {0}))),
              HasSubstr("'T' is no parameter and is not allocated around its use"));
}

TEST(Interpreter, ArraysThatDoNotFitAreRefused) {
  Program p = parse_program("program p(A: f32[2] input, C: f32[1] output) { C[0] = A[0] }");
  auto message = [&](NdArrays arrays) {
    try {
      interpret(p, arrays);
    } catch (const IrError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(message({}), HasSubstr("no array for the input 'A'"));
  EXPECT_THAT(message({{"A", array({1, 2, 3})}}), HasSubstr("'A' is f32[2], the array is f32[3]"));
  EXPECT_THAT(message({{"A", array({1, 2}, ElemType::f64)}}), HasSubstr("the array is f64[2]"));
}

TEST(Interpreter, APrefetchHasNoEffectAnywhere) {
  EXPECT_EQ(run("prefetch<bool>(A[1000], 3)\n" + kCopy)[7], 7);
}

TEST(NdArray, RandomValuesFitTheirTypeAndDependOnTheSeed) {
  for (int t = 0; t <= static_cast<int>(ElemType::index); ++t) {
    auto elem = static_cast<ElemType>(t);
    NdArray a = NdArray::random(elem, {4, 50}, 7);
    ASSERT_EQ(a.data.size(), 200u);
    double low = a.data[0], high = a.data[0];
    for (double v : a.data) {
      ASSERT_EQ(v, round_to(elem, v)) << to_string(elem);
      low = std::min(low, v);
      high = std::max(high, v);
    }
    EXPECT_LT(low, high) << to_string(elem);
    EXPECT_EQ(a.data, NdArray::random(elem, {4, 50}, 7).data);
    EXPECT_NE(a.data, NdArray::random(elem, {4, 50}, 8).data);
  }
}

}  // namespace
}  // namespace tilewright
