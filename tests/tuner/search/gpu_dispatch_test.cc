// The sources of dispatch tables for GPUs: the model and the emulator at several sizes of a
// program's dynamic dimensions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "tests/tuner/a100.h"
#include "tests/tuner/choices.h"
#include "tuner/gpu/gpu_model.h"
#include "tuner/measure/emulated_check.h"
#include "tuner/search/gpu_estimates.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;

const Sketch& sketch() { return cuda_sketches().front(); }

std::string config_with(const Workload& w, const Choices& choices) {
  return applied_trial(sketch(), {w, a100(), 1}, choices).config();
}

Program program_of(const Workload& w, const Choices& choices) {
  return apply_sketch(sketch(), {w, a100(), 1}, choices).program();
}

const Workload& ranged() {
  static const Workload w = parse_workload("matmul:m=1..4096,n=1024,k=1024,dtype=f16");
  return w;
}

TEST(GpuDispatch, TheModelTellsOfEachSize) {
  const Program p = program_of(ranged(), Choices());
  const std::vector<GpuEstimate> at = estimate_gpu_at(p, a100(), {{{"m", 1}}, {{"m", 512}}, {}});
  ASSERT_EQ(at.size(), 3u);
  for (const GpuEstimate& e : at) EXPECT_TRUE(e.fits()) << e.refusal;
  EXPECT_LT(at[0].seconds, at[1].seconds);
  EXPECT_LT(at[1].seconds, at[2].seconds);
  EXPECT_LT(at[0].kernels[0].blocks, at[1].kernels[0].blocks);
  EXPECT_LT(at[0].kernels[0].dram_bytes, at[1].kernels[0].dram_bytes) << "rows that are not there";
  EXPECT_EQ(at[2].seconds, estimate_gpu(p, a100()).seconds) << "the largest";
  // Like a kernel for this size only, up to what the compiler can know of it.
  const Workload fixed = parse_workload("matmul:m=512,n=1024,k=1024,dtype=f16");
  const Choices same = Choices::parse(config_with(ranged(), {}));
  EXPECT_EQ(at[1].kernels[0].blocks,
            estimate_gpu(program_of(fixed, plain_with(same)), a100()).kernels[0].blocks);
}

TEST(GpuDispatch, WhatDoesNotFitIsRefusedAtEverySize) {
  Program unbound = lower(ranged());
  Schedule s(unbound);
  s.parallel(s.loops(s.blocks().front())[0]);
  for (const GpuEstimate& e : estimate_gpu_at(s.program(), a100(), {{{"m", 1}}, {}})) {
    EXPECT_THAT(e.refusal, HasSubstr("is parallel, which no GPU kernel is made of"));
    EXPECT_EQ(e.seconds, 0);
  }
}

TEST(GpuDispatch, CandidatesAreScoredAtASize) {
  CandidateMaker maker(ranged(), a100(), 1);
  GpuEstimates estimates(a100(), {{{"m", 1}}, {{"m", 4096}}});
  std::vector<Candidate> candidates;
  for (const char* tile : {"32x32x32/32x16", "128x128x32/64x32"}) {
    auto c = maker.make(sketch(), Trial::replay(config_with(ranged(), {{"C_acc.tile", tile}})));
    ASSERT_TRUE(c.has_value()) << tile;
    candidates.push_back(std::move(*c));
  }
  estimates.score(candidates, 0);
  EXPECT_GT(candidates[0].score, candidates[1].score) << "few rows fill small tiles alone";
  estimates.score(candidates, 1);
  EXPECT_LT(candidates[0].score, candidates[1].score);
  EXPECT_EQ(estimates.seconds(candidates[1]), estimates.at_sizes(candidates[1])[1]);
}

// Tiles have one reduction order whatever their number; stream-K depends on the number of tiles.
TEST(GpuDispatch, TheEmulatorComparesRowsAtSeveralSizes) {
  const Choices tile = {{"C_acc.tile", "64x64x32/32x32"}, {"C_acc.stages", 3}};
  const EmulatedCheck plain =
      check_emulated(ranged(), a100(), sketch(), config_with(ranged(), tile));
  EXPECT_TRUE(plain.passed()) << plain.run.problem;
  EXPECT_EQ(plain.rows.size(), 16u) << plain.instance;
  EXPECT_THAT(plain.instance, HasSubstr("m=1..256"));

  const Choices streamed = joined_choices(tile, {{"C_acc.grid", "stream_k"}, {"C_acc.blocks", 1}});
  const EmulatedCheck shared =
      check_emulated(ranged(), a100(), sketch(), config_with(ranged(), streamed));
  EXPECT_TRUE(shared.passed()) << shared.run.problem;
  EXPECT_EQ(shared.rows, "") << "the order of its sums depends on the number of tiles";

  const Workload fixed = parse_workload("matmul:m=64,n=64,k=64,dtype=f16");
  EXPECT_EQ(check_emulated(fixed, a100(), sketch(), config_with(fixed, {})).rows, "");
}

}  // namespace
}  // namespace tilewright
