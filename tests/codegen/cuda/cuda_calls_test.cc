// The text of calls that are statements: barriers, mbarriers, copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "codegen/cuda/cuda_async_op.h"
#include "codegen/cuda/cuda_tensor_text.h"
#include "ir/buffer.h"
#include "ir/text/parser.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

using testing::ElementsAre;

// The lines of the only call of a program.
std::vector<std::string> lines_of(const std::string& call) {
  const Program p = parse_program(
      "program p(A: f16[64] input, S: f16[64] output, B: u64[8] output) { " + call + " }");
  const Target target = Target::parse("cuda:sm_90a");
  Analyzer known;
  CudaExpr expr(target, known);
  for (const Param& param : p.params) expr.buffers[param.buffer.get()] = param.buffer->name;
  const Expr& value = p.body.as<EvaluateNode>()->value;
  if (const auto copy = tensor_transfer(value)) return transfer_lines(*copy, "map", expr);
  return call_lines(*value.as<CallNode>(), expr);
}

TEST(CudaCalls, ThreadsMeet) {
  EXPECT_THAT(lines_of("barrier<bool>()"), ElementsAre("__syncthreads();"));
  EXPECT_THAT(lines_of("warp_barrier<bool>()"), ElementsAre("__syncwarp();"));
  EXPECT_THAT(lines_of("named_barrier<bool>(1, 256)"), ElementsAre("tw_barrier_sync(1, 256);"));
  EXPECT_THAT(lines_of("cluster_barrier<bool>()"),
              ElementsAre("tw_cluster_arrive();", "tw_cluster_wait();"));
  EXPECT_THAT(lines_of("cluster_barrier_relaxed<bool>()"),
              ElementsAre("tw_cluster_arrive_relaxed();", "tw_cluster_wait();"));
}

TEST(CudaCalls, MbarriersAndFences) {
  EXPECT_THAT(lines_of("proxy_fence<bool>()"), ElementsAre("tw_fence_async();"));
  EXPECT_THAT(lines_of("mbarrier_fence<bool>()"), ElementsAre("tw_mbarrier_fence_init();"));
  EXPECT_THAT(lines_of("mbarrier_init<bool>(B[2], 4)"), ElementsAre("tw_mbarrier_init(B + 2, 4);"));
  EXPECT_THAT(lines_of("mbarrier_arrive<bool>(B[2])"), ElementsAre("tw_mbarrier_arrive(B + 2);"));
  EXPECT_THAT(lines_of("mbarrier_arrive_expect<bool>(B[2], 512)"),
              ElementsAre("tw_mbarrier_arrive_expect_tx(B + 2, 512);"));
  EXPECT_THAT(lines_of("mbarrier_arrive_cluster<bool>(B[2], 1)"),
              ElementsAre("tw_mbarrier_arrive_cluster(B + 2, 1);"));
  EXPECT_THAT(lines_of("mbarrier_wait<bool>(B[2], 1)"), ElementsAre("tw_mbarrier_wait(B + 2, 1);"));
}

TEST(CudaCalls, CopiesAndTheirWaits) {
  EXPECT_THAT(lines_of("async_commit<bool>()"), ElementsAre("tw_cp_async_commit();"));
  EXPECT_THAT(lines_of("async_wait<bool>(2)"), ElementsAre("tw_cp_async_wait<2>();"));
  EXPECT_THAT(lines_of("bulk_load<bool>(S[8], A[16], 64, B[1])"),
              ElementsAre("tw_bulk_load(S + 8, A + 16, 64, B + 1);"));
  EXPECT_THAT(lines_of("store_wait<bool>(1)"), ElementsAre("tw_bulk_wait_read<1>();"));
  EXPECT_THAT(lines_of("raise_registers<bool>(240)"), ElementsAre("tw_registers_raise<240>();"));
  EXPECT_THAT(lines_of("lower_registers<bool>(24)"), ElementsAre("tw_registers_lower<24>();"));
}

TEST(CudaCalls, TensorCopiesNameTheirTileInnermostFirst) {
  EXPECT_THAT(lines_of("tensor_load<bool>(S[8], A[0], B[1], 1, 3, 5, 8, 8, 2, 4)"),
              ElementsAre("tw_tensor_load_2d(S + 8, map, 5, 3, B + 1);"));
  EXPECT_THAT(lines_of("tensor_load<bool>(S[8], A[0], B[1], 2, 3, 5, 8, 8, 2, 4)"),
              ElementsAre("tw_tensor_multicast_2d(S + 8, map, 5, 3, B + 1, 0x3);"));
  EXPECT_THAT(lines_of("tensor_store<bool>(S[8], A[0], 3, 5, 8, 8, 2, 4)"),
              ElementsAre("tw_tensor_store_2d(map, 5, 3, S + 8);", "tw_bulk_commit();"));
}

TEST(CudaCalls, AnIm2colLoadIsTakenApartAsItWasMade) {
  const Buffer images = make_buffer("X", ElemType::f16, {2, 8, 9, 16});
  const Buffer tile = make_buffer("S", ElemType::f16, {512}, Scope::Shared);
  const Buffer ring = make_buffer("B", ElemType::u64, {2}, Scope::Shared);
  TensorBox box{{1, 2, 3, 4}, {2, 8, 9, 16}, {1, 1, 32, 16}};
  box.pixels = BoxPixels{{1, 2}, {-1, -2}, {-3, -4}, {1, 2}};
  const Stmt made = load_box(load(tile, {0}), images, load(ring, {1}), box, 2);
  const auto copy = tensor_transfer(made.as<EvaluateNode>()->value);
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copy->is_store);
  EXPECT_EQ(copy->operand, images);
  EXPECT_EQ(copy->blocks, 2);
  EXPECT_EQ(copy->box.box, box.box);
  ASSERT_TRUE(copy->box.pixels);
  EXPECT_EQ(copy->box.pixels->lower, box.pixels->lower);
  EXPECT_EQ(copy->box.pixels->upper, box.pixels->upper);
  EXPECT_EQ(copy->box.pixels->steps, box.pixels->steps);
  EXPECT_TRUE(is_int(copy->box.pixels->offsets[1], 2));
  EXPECT_TRUE(is_int(copy->box.at[2], 3));
  EXPECT_TRUE(is_int(copy->box.dims[3], 16));
}

}  // namespace
}  // namespace tilewright
