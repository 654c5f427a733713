#include <gtest/gtest.h>

#include "ir/arith/simplify.h"
#include "ir/interpreter/interpreter.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "tests/ir/arith/arith_support.h"
#include "tests/ir/random_program.h"

namespace tilewright {
namespace {

Program program_simplify_stmt(const std::string& body) {
  return parse_program(
      "program p(A: f32[128] input, I: i32[8] input, C: f32[128] output) dims(n: 1..64) {\n" +
      body + "\n}");
}

std::string body_of(const Program& p) { return p.body.defined() ? to_string(p.body) : ""; }

void expect(const std::string& before, const std::string& after, bool drop_unit_loops = false) {
  Program simple = simplify(program_simplify_stmt(before), drop_unit_loops);
  EXPECT_EQ(body_of(simple), after.empty() ? "" : body_of(program_simplify_stmt(after)));
}

TEST(SimplifyStmt, IndicesKnowTheLoopsAroundThem) {
  expect(
      "for i in 0..8 { for j in 0..16 { C[floordiv(i * 16 + j, 16) * 16 + floormod(j, 16)] = "
      "A[floormod(i * 16 + j, 16)] } }",
      "for i in 0..8 { for j in 0..16 { C[i * 16 + j] = A[j] } }");
}

TEST(SimplifyStmt, DecidedIfsGo) {
  expect("for i in 0..8 { if (i < 8) { C[i] = A[i] } else { C[0] = 1.0f32 } }",
         "for i in 0..8 { C[i] = A[i] }");
  expect("for i in 0..8 { if (i >= 8) { C[i] = A[i] } else { C[0] = 1.0f32 } }",
         "for i in 0..8 { C[0] = 1.0f32 }");
  expect("for i in 0..8 { if (i >= 8) { C[i] = A[i] } }", "");
}

TEST(SimplifyStmt, BothSidesOfAnIfKnowItsCondition) {
  expect("for i in 0..8 { if (i < 4) { C[min(i, 3)] = A[i] } else { C[max(i, 4)] = A[i] } }",
         "for i in 0..8 { if (i < 4) { C[i] = A[i] } else { C[i] = A[i] } }");
  expect("for i in 0..8 { if (i < 4) { if (i < 6) { C[i] = A[i] } } }",
         "for i in 0..8 { if (i < 4) { C[i] = A[i] } }");
}

TEST(SimplifyStmt, AnIfWithoutThenTurnsAround) {
  expect("for i in 0..8 { if (i < 4) { for j in 0..0 { C[j] = A[i] } } else { C[i] = A[i] } }",
         "for i in 0..8 { if (i >= 4) { C[i] = A[i] } }");
}

TEST(SimplifyStmt, LoopsOfNoIterationGo) {
  expect("for i in 0..0 { C[i] = A[i] }", "");
  expect("for i in 0..8 { for j in 0..min(i - 8, 4) { C[j] = A[i] } }", "");
}

TEST(SimplifyStmt, UnitLoopsStayUnlessAsked) {
  std::string loops = "for i in 3..4 { for j in 0..4 { C[i + j] = A[j] } }";
  expect(loops, loops);
  expect(loops, "for j in 0..4 { C[j + 3] = A[j] }", true);
  std::string axis = "for i in 0..1 thread_x { C[i] = A[i] }";
  expect(axis, axis, true);
}

TEST(SimplifyStmt, BlocksKnowTheirIteratorsAndPredicate) {
  expect(
      "block root() { for i in 0..8 { for j in 0..16 {\n"
      "block C(v: spatial 127 = i * 16 + j) where (i * 16 + j < 127) {\n"
      "C[min(v, 126)] = A[v] } } } }",
      "block root() { for i in 0..8 { for j in 0..16 {\n"
      "block C(v: spatial 127 = i * 16 + j) where (i * 16 + j < 127) {\n"
      "C[v] = A[v] } } } }");
  expect(
      "block root() { for i in 0..8 {\n"
      "block C(v: spatial 8 = i) where (i < 8) { C[v] = A[v] } } }",
      "block root() { for i in 0..8 {\n"
      "block C(v: spatial 8 = i) { C[v] = A[v] } } }");
}

TEST(SimplifyStmt, IteratorsOfOneValueStayInTheBody) {
  std::string block =
      "block root() { for i in 0..1 { block C(v: spatial 1 = i) { C[v] = A[v] } } }";
  expect(block, block);
}

TEST(SimplifyStmt, LetsOfTrivialValuesGo) {
  expect("for i in 0..8 { let x: index = i { C[x] = A[x] } }", "for i in 0..8 { C[i] = A[i] }");
  expect("for i in 0..8 { let x: index = i * 2 { if (x < 15) { C[x] = A[x] } } }",
         "for i in 0..8 { let x: index = i * 2 { C[x] = A[x] } }");
}

TEST(SimplifyStmt, PredicatesOfStoresAreDecided) {
  expect("for i in 0..8 { C[i] = A[i] if (i < 8) }", "for i in 0..8 { C[i] = A[i] }");
  expect("for i in 0..8 { C[i] = A[i] if (i > 8) }", "");
}

TEST(SimplifyStmt, DimensionsOfTheProgramHaveTheirRange) {
  expect("for i in 0..n { if (i < 64) { C[i] = A[i] } }", "for i in 0..n { C[i] = A[i] }");
}

TEST(SimplifyStmt, AStatementInsideOthersUsesWhatIsKnownThere) {
  Program p = program_simplify_stmt("for i in 0..16 { C[floordiv(i, 16)] = A[floormod(i, 16)] }");
  auto* loop = p.body.as<ForNode>();
  Analyzer known;
  known.bind(loop->var, 0, 4);
  EXPECT_EQ(to_string(simplify(loop->body, known)),
            to_string(make_store(loop->body.as<StoreNode>()->buffer, {0},
                                 load(p.params[0].buffer, {loop->var}))));
}

// Every kind of node is simplified, and a second pass changes nothing.
TEST(SimplifyStmt, RandomProgramsAreSimplifiedOnce) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Program p = test::RandomProgram(seed).make();
    for (bool drop : {false, true}) {
      Program once = simplify(p, drop);
      if (!once.body.defined()) continue;
      Program twice = simplify(once, drop);
      ASSERT_TRUE(twice.body.same_as(once.body)) << "seed " << seed << "\n"
                                                 << to_string(once) << "\nthen\n"
                                                 << to_string(twice);
    }
  }
}

// Loops, ifs and lets around stores with random indices and values.
class NestGenerator {
 public:
  explicit NestGenerator(uint64_t seed) : exprs_(seed) {}

  Stmt nest() {
    Stmt body = stmt(3);
    for (const test::RangedVar& v : exprs_.vars()) {
      body = make_for(v.var, v.min, v.extent, ForKind::Serial, body);
    }
    return body;
  }

  const Buffer out = make_buffer("out", ElemType::f32, {64});

 private:
  Stmt stmt(int depth) {
    if (depth == 0) return store(exprs_.index(2));
    switch (exprs_.number(0, 4)) {
      case 0: return make_if(exprs_.condition(2), stmt(depth - 1), stmt(depth - 1));
      case 1: return make_if(exprs_.condition(2), stmt(depth - 1));
      case 2: return make_seq({stmt(depth - 1), stmt(depth - 1)});
      case 3: {
        Var x("x" + std::to_string(depth));
        return make_let(x, exprs_.index(2),
                        make_seq({store(x + exprs_.index(1)), stmt(depth - 1)}));
      }
      default: {
        Var l("l" + std::to_string(depth));
        Expr extent = min(exprs_.index(1), exprs_.number(0, 3));
        return make_for(l, exprs_.index(1), extent, ForKind::Serial,
                        make_seq({store(l * exprs_.index(1)), stmt(depth - 1)}));
      }
    }
  }

  // Adds to an element, so that every execution counts.
  Stmt store(const Expr& place) {
    Expr at = floormod(place, 64);
    return make_store(out, {at}, load(out, {at}) + cast(ElemType::f32, exprs_.index(2)));
  }

  test::ExprGenerator exprs_;
};

TEST(SimplifyStmt, KeepsWhatRandomProgramsCompute) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    NestGenerator generator(seed);
    Var z("z");
    Stmt clear = make_for(z, 0, 64, ForKind::Serial,
                          make_store(generator.out, {z}, make_float(ElemType::f32, 0)));
    Program p{"p", {{generator.out, ParamRole::Output}}, {}, make_seq({clear, generator.nest()})};
    NdArrays expected;
    interpret(p, expected);
    for (bool drop : {false, true}) {
      Program simple = simplify(p, drop);
      NdArrays got;
      interpret(simple, got);
      ASSERT_EQ(got.at("out").data, expected.at("out").data) << "seed " << seed << "\n"
                                                             << to_string(p) << "\nbecame\n"
                                                             << to_string(simple);
    }
  }
}

}  // namespace
}  // namespace tilewright
