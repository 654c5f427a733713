// The instructions of a lowered kernel: marked nests, each matched where it stands.
#include "codegen/cuda/cuda_kernel.h"

#include <gtest/gtest.h>

#include <string>

#include "codegen/cuda/instructions/cuda_instruction.h"
#include "ir/text/parser.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

// The marked nests of a kernel, in order.
std::vector<const ForNode*> marked_in(const Stmt& s) {
  std::vector<const ForNode*> nests;
  for_each_stmt(s, [&](const Stmt& x) {
    auto* loop = x.as<ForNode>();
    if (loop && !instruction_of(*loop).empty()) nests.push_back(loop);
  });
  return nests;
}

// Passes build statements of shared nodes. What holds at one place does not hold at the other.
TEST(CudaKernel, ANestAtTwoPlacesIsMatchedAtEach) {
  const Program p = parse_program(
      "program p(C: i32[1] output) { allocate X: i8[64] register { allocate Y: i8[64] register { "
      "let base: index = 0 { for i in 0..4 @{instruction: \"dp4a\"} { C[0] = (C[0] + "
      "(cast<i32>(X[(base "
      "+ i)]) * cast<i32>(Y[i]))) } } } } }");
  const auto* x = p.body.as<AllocateNode>();
  const auto* y = x->body.as<AllocateNode>();
  const auto* let = y->body.as<LetNode>();
  const Stmt again = make_let(let->var, Expr(16), let->body);
  const Stmt body =
      make_allocate(x->buffer, make_allocate(y->buffer, make_seq({y->body, again, y->body})));

  const CudaKernel kernel = match_kernel(body, p.dims, Target::parse("cuda:sm_80"));
  std::vector<int64_t> firsts;
  for (const ForNode* nest : marked_in(kernel.body)) {
    const InstructionNest* found = kernel.instruction(*nest);
    ASSERT_NE(found, nullptr);
    firsts.push_back(as_int(std::get<DotNest>(*found).x.first).value());
  }
  EXPECT_EQ(firsts, (std::vector<int64_t>{0, 16, 0}));
}

// A kernel without such nests stays the same statement.
TEST(CudaKernel, DistinctNestsStay) {
  const Program p = parse_program(
      "program p(C: i32[2] output) { allocate X: i8[4] register { for i in 0..4 @{instruction: "
      "\"dp4a\"} { C[0] = (C[0] + (cast<i32>(X[i]) * cast<i32>(X[i]))) } for i in 0..4 "
      "@{instruction: \"dp4a\"} { C[1] = (C[1] + (cast<i32>(X[i]) * cast<i32>(X[i]))) } } }");
  const CudaKernel kernel = match_kernel(p.body, p.dims, Target::parse("cuda:sm_80"));
  EXPECT_TRUE(kernel.body.same_as(p.body));
  EXPECT_EQ(kernel.instructions.size(), 2u);
}

}  // namespace
}  // namespace tilewright
