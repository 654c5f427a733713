// The `expr` operator: the meaning of its text, and its error messages.
#include <gmock/gmock.h>

#include "ir/compare.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

std::string spec(const std::string& expr, const std::string& rest) {
  return "expr:expr=\"" + expr + "\"," + rest;
}

std::string canonical_expr(const std::string& expr, const std::string& rest) {
  return parse_spec(spec(expr, rest)).get<std::string>("expr");
}

std::string operands(const OpRun& run) {
  std::string text;
  for (const Param& p : run.workload().inputs) {
    text += p.buffer->name + ":" + to_string(p.buffer->elem);
    for (const Expr& e : p.buffer->shape) text += " " + to_string(e);
    text += std::string(p.role == ParamRole::Weight ? " weight" : "") + "; ";
  }
  return text;
}

TEST(ExprOp, ContractExampleInEveryForm) {
  const std::string json = R"({"op": "expr", "expr": "C[i,j] += A[i,k] * B[j,k]",
                               "dims": {"i": 5, "j": 3, "k": 7}})";
  const std::string bare = "expr:expr=C[i,j] += A[i,k]*B[j,k],dims.i=5,dims.j=3,dims.k=7";
  EXPECT_EQ(canonical_text(parse_spec(json)), canonical_text(parse_spec(bare)));
  EXPECT_EQ(canonical_text(parse_spec(bare)),
            R"({"acc":"f32","dims":{"i":5,"j":3,"k":7},"dtype":"f32",)"
            R"("expr":"C[i, j] += A[i, k] * B[j, k]","op":"expr","out":"f32","weights":[]})");
  OpRun run(bare);
  EXPECT_EQ(operands(run), "A:f32 5 7; B:f32 3 7; ");
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 7; ++k) run.expected()(i, j) += run.in("A")(i, k) * run.in("B")(j, k);
  run.check();
}

TEST(ExprOp, CountsOperationsLikeTheReference) {
  Workload w =
      make_workload(parse_spec(spec("C[b,h,i,j] += Q[b,i,h,d] * K[b,j,h,d]",
                                    "dims.b=1,dims.h=12,dims.i=128,dims.j=128,dims.d=64")));
  EXPECT_EQ(w.flops, 25165824);
}

TEST(ExprOp, AffineIndicesGiveTheInputsShape) {
  OpRun run(spec("y[n,h,c] += x[n, h*2+r-0, c] * w[r, c]",
                 "dims.n=2,dims.h=4,dims.c=3,dims.r=3,weights=w"));
  EXPECT_EQ(operands(run), "x:f32 2 9 3; w:f32 3 3 weight; ");
  for (int n = 0; n < 2; ++n)
    for (int h = 0; h < 4; ++h)
      for (int c = 0; c < 3; ++c)
        for (int r = 0; r < 3; ++r)
          run.expected()(n, h, c) += run.in("x")(n, h * 2 + r, c) * run.in("w")(r, c);
  run.check();
}

TEST(ExprOp, StatementsChain) {
  OpRun run(
      spec("m[i] max= X[i,j]; e[i,j] = exp(X[i,j] - m[i]); s[i] += e[i,j]; "
           "Y[i,j] = e[i,j] / s[i];",
           "dims.i=3,dims.j=5"));
  for (int i = 0; i < 3; ++i) {
    double top = run.in("X")(i, 0), sum = 0;
    for (int j = 0; j < 5; ++j) top = std::max(top, run.in("X")(i, j));
    for (int j = 0; j < 5; ++j) sum += std::exp(run.in("X")(i, j) - top);
    for (int j = 0; j < 5; ++j) run.expected()(i, j) = std::exp(run.in("X")(i, j) - top) / sum;
  }
  run.check();
}

TEST(ExprOp, GuardsBoundTheReads) {
  OpRun run(spec("P[h] = select(h >= 1 && h < 9, X[h-1], 0); Y[o] += P[o+r] * W[r]",
                 "dims.h=10,dims.o=8,dims.r=3"));
  EXPECT_EQ(operands(run), "X:f32 8; W:f32 3; ");
  for (int o = 0; o < 8; ++o)
    for (int r = 0; r < 3; ++r) {
      int h = o + r - 1;
      if (h >= 0 && h < 8) run.expected()(o) += run.in("X")(h)*run.in("W")(r);
    }
  run.check();
}

TEST(ExprOp, GuardsOfSeveralIndicesAndElseSides) {
  OpRun run(
      spec("Y[o,r] = select(!(o + r < 2 || o + r - 2 >= 5), X[o+r-2], -1)", "dims.o=5,dims.r=5"));
  EXPECT_EQ(operands(run), "X:f32 5; ");
  OpRun shifted(spec("Y[i] = select(i == 0, 7, X[i-1])", "dims.i=4"));
  EXPECT_EQ(operands(shifted), "X:f32 3; ");
  for (int i = 0; i < 4; ++i) shifted.expected()(i) = i == 0 ? 7 : shifted.in("X")(i - 1);
  shifted.check();
}

TEST(ExprOp, ArithmeticAndFunctions) {
  OpRun run(
      spec("Y[i] = -(A[i] + 2.5e-1) * 2 / (1 + abs(B[i])) - max(A[i], min(B[i], 0.5)) + "
           "sqrt(abs(A[i])) * tanh(B[i]) + floor(A[i] * 4) + i % 3 + i // 2",
           "dims.i=9"));
  for (int i = 0; i < 9; ++i) {
    double a = run.in("A")(i), b = run.in("B")(i);
    const int whole = i % 3 + i / 2;
    run.expected()(i) = -(a + 0.25) * 2 / (1 + std::abs(b)) - std::max(a, std::min(b, 0.5)) +
                        std::sqrt(std::abs(a)) * std::tanh(b) + std::floor(a * 4) + whole;
  }
  run.check();
}

// As affine indices are, remainders and quotients are compared as whole numbers.
TEST(ExprOp, ComparisonsOfIndicesAreOfWholeNumbers) {
  const auto text = [](const std::string& condition) {
    return to_string(make_workload(parse_spec("expr:expr=\"Y[i, j] = select(" + condition +
                                              ", X[i, j], 0)\",dims.i=9,dims.j=7")));
  };
  for (const char* condition : {"i % 4 == 1", "(i + 2) // 3 < j", "i - j % 2 >= 3", "2 * i > j"}) {
    EXPECT_EQ(text(condition).find("f32"), std::string::npos) << text(condition);
  }
  EXPECT_NE(text("i * j < 9").find("f32"), std::string::npos) << "no index: " << text("i * j < 9");
}

TEST(ExprOp, DataDependentReadsAreHeldInside) {
  OpRun run(spec("Y[i,c] = T[idx[i], c]", "dims.i=4,dims.c=3,shapes.T=[6,3]"));
  EXPECT_EQ(operands(run), "idx:i32 4; T:f32 6 3; ");
  const int indices[] = {5, -3, 2, 100}, rows[] = {5, 0, 2, 5};
  for (int i = 0; i < 4; ++i) {
    run.in("idx")(i) = indices[i];
    for (int c = 0; c < 3; ++c) run.expected()(i, c) = run.in("T")(rows[i], c);
  }
  run.check(0);
}

TEST(ExprOp, TypesByTensor) {
  OpRun run(spec("C[i,j] += A[i,k] * B[j,k]; D[i,j] = C[i,j] * S[j]",
                 "dims.i=2,dims.j=3,dims.k=40,dtype=i8,acc=f32,dtypes.S=f32,dtypes.B=u8,"
                 "dtypes.C=bf16,out=f16"));
  EXPECT_EQ(operands(run), "A:i8 2 40; B:u8 3 40; S:f32 3; ");
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      double sum = 0;
      for (int k = 0; k < 40; ++k) sum += run.in("A")(i, k) * run.in("B")(j, k);
      run.expected()(i, j) =
          round_to(ElemType::f16, round_to(ElemType::bf16, sum) * run.in("S")(j));
    }
  run.check(1e-3);
}

TEST(ExprOp, SumsOfIntegersAreExactInTheirType) {
  // A float of 32 bits has gaps from 2^24 on.
  OpRun run(
      spec("P[i,k] = select(k < 1800, A[i,k], 200); S[i,j] += P[i,k] * B[j,k]; "
           "T[i,j] = S[i,j] - 3 * R[j]; C[i,j] = T[i,j] * 0.5",
           "dims.i=2,dims.j=3,dims.k=2000,dtypes.A=u8,dtypes.B=u8,dtypes.P=u8,dtypes.R=i32,"
           "dtypes.S=i32,dtypes.T=i32,out=f32"));
  std::string types;
  for (const Stage& stage : run.workload().stages) types += to_string(stage.output->elem) + " ";
  EXPECT_EQ(types, "u8 i32 i32 f32 ");
  EXPECT_THAT(to_string(run.workload()), HasSubstr("S[i, j] += i32(P[i, k]) * i32(B[j, k])"));
  EXPECT_THAT(to_string(run.workload()), HasSubstr("P[i, k] = select(k < 1800, A[i, k], 200)"));
}

TEST(ExprOp, OtherStatementsOfIntegersAreInTheAccumulatorsType) {
  const auto made_in = [](const std::string& expr, const std::string& types) {
    const Workload w =
        make_workload(parse_spec(spec(expr, "dims.i=2,dims.k=9,dtypes.A=u8,out=u8" + types)));
    return std::string(to_string(w.stages[0].output->elem));
  };
  EXPECT_EQ(made_in("C[i] += A[i,k]", ""), "f32") << "a byte does not hold the sum";
  EXPECT_EQ(made_in("C[i] max= A[i,k]", ""), "u8");
  EXPECT_EQ(made_in("C[i] max= select(k < 4, A[i,k], 200)", ""), "u8");
  const std::string sums = ",dtypes.S=i32", rest = "; C[i] = S[i] * 2";
  EXPECT_EQ(made_in("S[i] += A[i,k] * B[i,k]" + rest, sums + ",dtypes.B=i32"), "i32");
  EXPECT_EQ(made_in("S[i] += A[i,k] * B[i,k]" + rest, sums), "f32");
  EXPECT_EQ(made_in("S[i] += A[i,k] * 0.5" + rest, sums), "f32");
  EXPECT_EQ(made_in("S[i] += A[i,k] * 4000000000" + rest, sums), "f32");
}

TEST(ExprOp, ElementsAreComparedInTheAccumulatorsType) {
  OpRun run(spec("C[i] = select(A[i] < 0.25, 1, 0)", "dims.i=9,out=u8"));
  for (int i = 0; i < 9; ++i) run.expected()(i) = run.in("A")(i) < 0.25 ? 1 : 0;
  run.check(0);
}

TEST(ExprOp, DynamicDimensions) {
  OpRun run(spec("C[i,j] += A[i,k] * B[j,k]", "dims.i=1..8,dims.j=3,dims.k=4"), {{"i", 5}});
  EXPECT_EQ(operands(run), "A:f32 i 4; B:f32 3 4; ");
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) run.expected()(i, j) += run.in("A")(i, k) * run.in("B")(j, k);
  run.check();
  Workload window = make_workload(parse_spec(spec("Y[i] += X[2*i+r]", "dims.i=1..8,dims.r=3")));
  EXPECT_EQ(to_string(window.inputs[0].buffer->shape[0]), "(((i - 1) * 2) + 3)");
}

TEST(ExprOp, CanonicalSpellingIsStable) {
  auto spelled = [](const std::string& text) { return canonical_expr(text, "dims.i=4,dims.j=4"); };
  EXPECT_EQ(spelled("C[i,j]=((A[i,j])+(B[i,j]*(2)));"), "C[i, j] = A[i, j] + B[i, j] * 2");
  EXPECT_EQ(spelled("C[i]max=A[i,j]-(B[i]-A[j,i])"), "C[i] max= A[i, j] - (B[i] - A[j, i])");
  EXPECT_EQ(spelled("C[i,j]=select(!(i<j)||(i==j&&j>2),-(-A[i]),A[i]/(2/A[j]))"),
            "C[i, j] = select(!(i < j) || i == j && j > 2, --A[i], A[i] / (2 / A[j]))");
  for (const char* text : {"C[i,j]=select(!(i<j)||(i==j&&j>2),-(-A[i]),A[i]/(2/A[j]))",
                           "C[i,j]=select((A[i]+1)*2<(A[j]),1,2)", "C[i]min=(A[i,j]+1)*-2"}) {
    std::string once = spelled(text);
    EXPECT_EQ(spelled(once), once);
  }
}

TEST(ExprOp, EqualMeaningsHaveOneText) {
  auto text = [](const std::string& rest) {
    return canonical_text(parse_spec(spec("C[i] += A[i,k] * B[k]", "dims.i=4,dims.k=8" + rest)));
  };
  EXPECT_EQ(text(""), text(",dtypes.A=f32,dtypes.C=f32,weights=[]"));
  EXPECT_EQ(text(",weights=[B,A]"), text(",weights=[A,B,A]"));
  EXPECT_NE(text(""), text(",weights=[B]"));
  EXPECT_NE(text(""), text(",dtypes.A=bf16"));
}

TEST(ExprOp, InlineFormRoundTrips) {
  Spec s = parse_spec(spec("C[i] += A[i,k] * T[idx[k]]",
                           "dims.i=1..4,dims.k=8,shapes.T=[9],dtypes.A=bf16,weights=[T]"));
  EXPECT_EQ(canonical_text(parse_spec(spec_to_inline(s))), canonical_text(s)) << spec_to_inline(s);
  EXPECT_EQ(canonical_text(parse_spec(canonical_text(s))), canonical_text(s));
}

std::string refusal_expr_op(const std::string& expr, const std::string& rest) {
  try {
    parse_spec(spec(expr, rest));
  } catch (const SpecError& e) {
    return e.what();
  }
  return "no error";
}

TEST(ExprRefusal, CaretStandsInTheText) {
  EXPECT_THAT(refusal_expr_op("C[i] += A[i,q]", "dims.i=4"),
              HasSubstr("spec: expr: 'q' is no index; dims gives i\n"
                        "  expr:expr=\"C[i] += A[i,q]\",dims.i=4\n"
                        "                         ^\n"));
  try {
    parse_spec_file_text(
        "[\n{\"op\": \"expr\",\n \"expr\": \"C[i] = A[i] $\", \"dims\": {\"i\": 4}}]", "f.json");
    FAIL();
  } catch (const SpecError& e) {
    EXPECT_THAT(e.what(), HasSubstr("f.json:3:23: expr: unexpected '$'\n"));
  }
}

struct ExprOpRefusal {
  const char* expr;
  const char* message;
  const char* rest = "dims.i=4,dims.j=4";
};

class ExprRefusals : public testing::TestWithParam<ExprOpRefusal> {};

TEST_P(ExprRefusals, SaysWhatIsWrong) {
  EXPECT_THAT(refusal_expr_op(GetParam().expr, GetParam().rest), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Syntax, ExprRefusals,
    testing::Values(
        ExprOpRefusal{"3", "expected a statement such as C[i,j] += A[i,k] * B[k,j], found '3'"},
        ExprOpRefusal{"C = A[i]", "expected '[', found '='"},
        ExprOpRefusal{"C[2] = A[i]", "expected the name of an index, found '2'"},
        ExprOpRefusal{"C[i] - A[i]", "expected '=', '+=', 'max=' or 'min=', found '-'"},
        ExprOpRefusal{"C[i] max A[i]", "expected '=', found 'A'"},
        ExprOpRefusal{"C[i] =", "expected a value, found the end"},
        ExprOpRefusal{"C[i] = A[i] A[i]", "expected an operator or ';', found 'A'"},
        ExprOpRefusal{"C[i] = (A[i]", "expected ')', found the end"},
        ExprOpRefusal{"C[i] = A[i", "expected ']', found the end"},
        ExprOpRefusal{"C[i] = expp(A[i])", "no function 'expp'; did you mean 'exp'?"},
        ExprOpRefusal{"C[i] = max(A[i])", "'max' takes 2 arguments, got 1"},
        ExprOpRefusal{"C[i] = exp(A[i], 1)", "'exp' takes 1 argument, got 2"},
        ExprOpRefusal{"C[i] = select(A[i], 1, 2)", "expected a comparison, found ','"},
        ExprOpRefusal{"C[i] = 1.2.3", "'1.2.3' is not a number"},
        ExprOpRefusal{"C[i] = A[i] $ 2", "unexpected '$'"},
        ExprOpRefusal{"C[i] = A[i] * \xc3\xa4", "unexpected byte 0xc3"}));

// Spaces and parentheses of the given text are not those of its normal form.
TEST(ExprRefusal, ThePlaceIsThatInTheGivenText) {
  const std::string refused = refusal_expr_op("C[ i ]=((A[i]))   /2", "dims.i=4,dtype=i8");
  const size_t text = refused.find("expr="), caret = refused.find('^');
  ASSERT_NE(text, std::string::npos) << refused;
  ASSERT_NE(caret, std::string::npos) << refused;
  const auto column = [&](size_t at) { return at - refused.rfind('\n', at); };
  EXPECT_EQ(column(caret), column(refused.find('/', text))) << refused;
}

TEST(ExprRefusal, DeepNestingIsBounded) {
  std::string deep(5000, '(');
  EXPECT_THAT(refusal_expr_op("C[i] = " + deep + "1" + std::string(5000, ')'), "dims.i=4"),
              HasSubstr("expressions nest deeper than 100"));
  EXPECT_THAT(refusal_expr_op("C[i] = " + std::string(5000, '-') + "1", "dims.i=4"),
              HasSubstr("expressions nest deeper than 100"));
  std::string nots = "C[i] = select(" + std::string(5000, '!') + "i < 1, 1, 2)";
  EXPECT_THAT(refusal_expr_op(nots, "dims.i=4"), HasSubstr("expressions nest deeper than 100"));
}

// A chain needs no parentheses to make a deep tree.
TEST(ExprRefusal, ChainsAreBounded) {
  auto chain = [](const std::string& first, const std::string& next, int count) {
    std::string text = first;
    for (int i = 0; i < count; ++i) text += next;
    return text;
  };
  EXPECT_THAT(refusal_expr_op("C[i] = " + chain("A[i]", " + A[i]", 50000), "dims.i=4"),
              HasSubstr("more than 400 operators"));
  EXPECT_THAT(refusal_expr_op("C[i] = select(" + chain("i < 1", " && i < 1", 50000) + ", 1, 2)",
                              "dims.i=4"),
              HasSubstr("more than 400 operators"));
  Program longest = lower(parse_workload(R"({"op": "expr", "dims": {"i": 4}, "expr": "C[i] = )" +
                                         chain("A[i]", " + A[i]", 400) + "\"}"));
  EXPECT_TRUE(equal(parse_program(to_string(longest)), longest)) << "what is accepted reads back";
}

INSTANTIATE_TEST_SUITE_P(
    Meaning, ExprRefusals,
    testing::Values(
        ExprOpRefusal{"C[i] = A[i]", "dims.j: 'j' is no index of the expression"},
        ExprOpRefusal{"C[i,i] = A[i,j]", "the index 'i' stands twice on the left"},
        ExprOpRefusal{"C[i] = A[i,j]",
                      "the index 'j' is not on the left of '='; use +=, max= or min="},
        ExprOpRefusal{"i[j] = A[i,j]", "'i' is an index"},
        ExprOpRefusal{"C[i] += j[i]", "'j' is an index"},
        ExprOpRefusal{"C[i] += C[j]", "'C' reads itself"},
        ExprOpRefusal{"B[i] += A[i,j]; B[i] = A[i,i]", "'B' is written twice"},
        ExprOpRefusal{"B[i] = D[i]; D[j] = B[j]",
                      "'D' is read before the statement that writes it"},
        ExprOpRefusal{"B[i] = A[i]; D[j] = A[j]", "'B' is never read"},
        ExprOpRefusal{"B[i] += A[i,j] * A[j]", "'A' has 2 dimensions, got 1 indices"},
        ExprOpRefusal{"B[i] += A[i*j]", "an index must be affine"},
        ExprOpRefusal{"B[i] += A[i/j]", "an index cannot be a fraction"},
        ExprOpRefusal{"B[i] += A[i//j]", "'//' needs a positive whole number on its right"},
        ExprOpRefusal{"B[i] += A[j] * A[i%0]", "'%' needs a positive whole number on its right"},
        ExprOpRefusal{"B[i] += A[i+0.5] * A[j]", "'0.5' is not a whole number"},
        ExprOpRefusal{"B[i] += A[exp(i)] * A[j]", "an index is made of indices, whole numbers"},
        ExprOpRefusal{"B[i] += A[i-j]",
                      "this index of 'A' goes down to -3; guard the read by select"},
        ExprOpRefusal{"B[i] = A[i]; C[i,j] = B[i+j]",
                      "this index of 'B' ranges over 0..6, outside its 4"},
        ExprOpRefusal{"B[i] += A[I[j]]",
                      "the size of 'A' does not follow from this index; give shapes.A"},
        ExprOpRefusal{"B[i] += A[i//2] / (A[j] // 2)", "'//' stands only between indices"}));

INSTANTIATE_TEST_SUITE_P(
    Keys, ExprRefusals,
    testing::Values(
        ExprOpRefusal{"C[i] += A[j]", "expr needs the key dims", "dtype=f32"},
        ExprOpRefusal{"C[i] = A[i]", "dtypes.Z: the expression has no tensor 'Z'; it has A, C",
                      "dims.i=4,dtypes.Z=f32"},
        ExprOpRefusal{"C[i] = A[i]", "shapes.C: the expression has no input 'C'; it has A",
                      "dims.i=4,shapes.C=[4]"},
        ExprOpRefusal{"C[i] = A[i]", "weights: the expression has no input 'C'; it has A",
                      "dims.i=4,weights=C"},
        ExprOpRefusal{"C[i] = A[i]", "this index of 'A' goes up to 3, beyond its size of 3",
                      "dims.i=4,shapes.A=[3]"},
        ExprOpRefusal{"C[i] = A[i]", "shapes.A: 'A' has 1 dimensions, got 2 sizes",
                      "dims.i=4,shapes.A=[4,4]"},
        ExprOpRefusal{"C[i] = A[i]", "this index of 'A' goes up to 3, beyond its size of 2..3",
                      "dims.i=4,shapes.A=[2..3]"},
        ExprOpRefusal{"C[i] = A[i] * 0.5", "'0.5' is no value of i32", "dims.i=4,dtype=i8"},
        ExprOpRefusal{"C[i] = A[i] / 2", "'/' needs a float accumulator, not i32",
                      "dims.i=4,dtype=i8"},
        ExprOpRefusal{"C[i] = exp(A[i])", "'exp' needs a float accumulator, not i32",
                      "dims.i=4,dtype=i8"},
        ExprOpRefusal{"C[i] += A[i+j] * A[i]",
                      "reads of 'A' disagree on its size, which is dynamic",
                      "dims.i=1..4,dims.j=4"},
        ExprOpRefusal{"C[i] += A[i//2]", "does not follow from this index of a dynamic dimension",
                      "dims.i=1..4"},
        ExprOpRefusal{"B[i] = A[i]; C[i,j] = B[j]", "outside its 1..4 elements",
                      "dims.i=1..4,dims.j=2..4"}));

}  // namespace
}  // namespace tilewright
