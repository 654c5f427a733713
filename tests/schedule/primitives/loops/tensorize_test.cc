// tensorize: marks loops that match an intrinsic; refuses others with the reason.
#include "ir/compare.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "tests/golden.h"
#include "tests/schedule/rewrite_case.h"

namespace tilewright::test {
namespace {

// The computation of vpdpbusd on four lanes.
const std::string kDot =
    R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=2,dtype=u8,dtypes.B=i8)";

// A tile of C += A * B, with the weight in the layout that `b` reads; loops jj and kk innermost.
std::string program_tensorize(const std::string& loops, const std::string& b_shape,
                              const std::string& b, const std::string& where = "") {
  return R"(program p(A: u8[3, 8] input, B: i8)" + b_shape + R"( weight, C: i32[3, 8] output) {
    block root() {
      for i0 in 0..3 { for j0 in 0..8 { block zero(vi: spatial 3 = i0, vj: spatial 8 = j0) {
        C[vi, vj] = 0i32
      }}}
      for i in 0..3 { for j in 0..2 { for k in 0..4 { )" +
         loops + R"( {
        block C(vi: spatial 3 = i, vj: spatial 8 = j * 4 + jj, vk: reduce 8 = k * 2 + kk) )" +
         where + R"( {
          C[vi, vj] = C[vi, vj] + cast<i32>(A[vi, vk]) * cast<i32>(B)" +
         b + R"()
        }}}}}}}
  })";
}

const std::string kLoops = "for jj in 0..4 { for kk in 0..2";
const std::string kPacked = "[4, 2, 4, 2]";

std::string packed() {
  return program_tensorize(kLoops, kPacked,
                           "[floordiv(vk, 2), floordiv(vj, 4), floormod(vj, 4), floormod(vk, 2)]");
}

TEST(Tensorize, MarksTheLoops) {
  RewriteCase c(packed());
  c.s.tensorize({"jj"}, "test.dot", kDot);
  EXPECT_GOLDEN(c.str());
  c.check();
  EXPECT_TRUE(equal(parse_program(to_string(c.s.program())), c.s.program()));
}

TEST(Tensorize, TakesTheLoopsInAnyOrder) {
  RewriteCase c(
      program_tensorize("for kk in 0..2 { for jj in 0..4", kPacked,
                        "[floordiv(vk, 2), floordiv(vj, 4), floormod(vj, 4), floormod(vk, 2)]"));
  c.s.tensorize({"kk"}, "test.dot", kDot);
  c.check();
}

// When both operands have the same type, the order of the factors does not tell which is which.
TEST(Tensorize, TakesTheFactorsInAnyOrder) {
  std::string text = packed();
  for (size_t at; (at = text.find("u8")) != std::string::npos;) text.replace(at, 2, "i8");
  const std::string a = "cast<i32>(A[vi, vk])", b = text.substr(text.find("cast<i32>(B"));
  const std::string factor = b.substr(0, b.find(")]") + 3);
  text.replace(text.find(a), a.size() + 3 + factor.size(), factor + " * " + a);
  const std::string dot = R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=2,dtype=i8)";
  RewriteCase c(text);
  c.s.tensorize({"jj"}, "test.dot", dot);
  c.check();
}

TEST(Tensorize, NamesTheIteratorThatDoesNotFit) {
  RewriteCase c(program_tensorize(kLoops, "[8, 8]", "[vk, vj]"));
  c.refuses([](Schedule& s) { s.tensorize({"jj"}, "test.dot", kDot); }, RefusalKind::Unsupported,
            "loop 'jj' is not 'test.dot': no loop is iterator 'j' of 4 iterations that steps by 1 "
            "in 'C', 0 in 'A', 2 in 'B'; loop 'jj' steps by 1 in 'B', which is the intrinsic's "
            "'B'; loop 'kk' has 2 iterations");
}

TEST(Tensorize, RefusesOtherTypes) {
  RewriteCase c(packed());
  const std::string other =
      R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=2,dtype=i8,dtypes.B=i8)";
  c.refuses([&](Schedule& s) { s.tensorize({"jj"}, "test.dot", other); }, RefusalKind::Unsupported,
            "operand 'A' is of type i8; 'A' holds u8");
  const std::string sums =
      R"(expr:expr="C[j] += A[k] * B[j,k]",dims.j=4,dims.k=2,dtype=bf16,out=f32)";
  c.refuses([&](Schedule& s) { s.tensorize({"jj"}, "test.dot", sums); }, RefusalKind::Unsupported,
            "operand 'C' is of type f32; 'C' holds i32");
}

TEST(Tensorize, RefusesAnotherComputation) {
  RewriteCase c(packed());
  const std::string more =
      R"(expr:expr="C[j] += A[k] * B[j,k] + 1",dims.j=4,dims.k=2,dtype=u8,dtypes.B=i8)";
  c.refuses([&](Schedule& s) { s.tensorize({"jj"}, "test.dot", more); }, RefusalKind::Unsupported,
            "stands where the intrinsic has");
}

TEST(Tensorize, RefusesLoopsThatTheIntrinsicLacks) {
  RewriteCase c(packed());
  c.refuses([](Schedule& s) { s.tensorize({"k"}, "test.dot", kDot); }, RefusalKind::Unsupported,
            "loop 'k' is no iterator of the intrinsic");
  c.refuses([](Schedule& s) { s.tensorize({"kk"}, "test.dot", kDot); }, RefusalKind::Unsupported,
            "no loop is iterator 'j'");
}

TEST(Tensorize, RefusesConditionsOnItsLoops) {
  const std::string b = "[floordiv(vk, 2), floordiv(vj, 4), floormod(vj, 4), floormod(vk, 2)]";
  RewriteCase c(program_tensorize(kLoops, kPacked, b, "where ((j * 4 + jj) < 7)"));
  c.refuses([](Schedule& s) { s.tensorize({"jj"}, "test.dot", kDot); }, RefusalKind::BadStructure,
            "the predicate of block 'C' depends on loop 'jj'");
  RewriteCase outside(program_tensorize(kLoops, kPacked, b, "where (i < 2)"));
  outside.s.tensorize({"jj"}, "test.dot", kDot);
  outside.check();
}

TEST(Tensorize, RefusesWhatIsNoPlainNest) {
  RewriteCase c(packed());
  c.refuses([](Schedule& s) { s.tensorize({"i0"}, "", kDot); }, RefusalKind::BadArgument,
            "argument 'intrinsic' of tensorize: expected a name", false);
  c.refuses([](Schedule& s) { s.tensorize({"jj"}, "x", "matmul:m=1"); }, RefusalKind::BadArgument,
            "argument 'computes' of tensorize: expected the spec of one sum of products", false);
  RewriteCase unrolled(packed());
  unrolled.s.unroll({"kk"});
  unrolled.refuses([](Schedule& s) { s.tensorize({"jj"}, "test.dot", kDot); },
                   RefusalKind::BadStructure, "loop 'kk' is unrolled");
  Schedule whole(matmul());
  EXPECT_REFUSED(whole.tensorize({"i"}, "test.dot", kDot), BadStructure,
                 "block 'C' has an init; decompose its reduction first");
}

}  // namespace
}  // namespace tilewright::test
