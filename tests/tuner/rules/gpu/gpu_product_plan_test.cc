// Plans of GPU products: they answer all knobs, and the builder asks none.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "codegen/codegen.h"
#include "codegen/lowering.h"
#include "ir/ops/spec.h"
#include "kernel/instructions/mma_rows.h"
#include "tuner/rules/gpu/product/gpu_product.h"
#include "tuner/rules/rules.h"

namespace tilewright {
namespace {

// The product of a workload, before any knob is asked.
struct ProductOf {
  explicit ProductOf(const std::string& spec)
      : workload(parse_workload(spec)), schedule(lower(workload)) {
    product.block = schedule.block("C_acc");
    product.roles = gpu_roles_of(schedule, product.block).value();
    if (workload.weight) {
      product.weights = {packable(context, product.block, product.roles, Multiplied::All).value()};
    }
  }

  Workload workload;
  Target target = Target::parse("cuda:sm_90a");
  Schedule schedule;
  Trial trial = Trial::first();
  SketchInput input{workload, target, 1};
  RuleContext context{schedule, trial, input};
  GpuProduct product;
};

using Ask = std::function<GpuProductPlan(RuleContext&, const GpuProduct&)>;

GpuProductPlan ask_mma(RuleContext& c, const GpuProduct& p) {
  return gpu_ask_mma(c, p, *gpu_find_row(mma_rows(), gpu_types_of(c.s, p), c.input.target));
}

class GpuPlans : public ::testing::TestWithParam<std::pair<const char*, Ask>> {};

TEST_P(GpuPlans, AnswerEveryKnobOfTheProduct) {
  ProductOf of(GetParam().first);
  const GpuProductPlan plan = GetParam().second(of.context, of.product);
  const size_t asked = of.trial.decisions().size();
  EXPECT_GT(asked, 0u);
  gpu_build_product(of.context, of.product, plan);
  EXPECT_EQ(of.trial.decisions().size(), asked);
  EXPECT_NE(generate_cuda(of.schedule.module(), of.target).text.find(plan.row->name),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Families, GpuPlans,
    ::testing::Values(
        std::pair("matmul:m=512,n=512,k=512,dtype=f16", Ask(ask_mma)),
        std::pair("matmul:m=512,n=512,k=512,dtype=f16", Ask(gpu_ask_wgmma)),
        std::pair("matmul:m=16,n=512,k=512,dtype=f16,trans_b=true", Ask(gpu_ask_swapped_wgmma)),
        std::pair("matmul:m=64,n=512,k=512,dtype=f16,w.dtype=i4,w.group=128,w.scale=f16",
                  Ask(gpu_ask_packed_mma)),
        std::pair("matmul:m=64,n=512,k=512,dtype=f16,w.dtype=i4,w.group=128,w.scale=f16",
                  Ask(gpu_ask_packed_wgmma))));

TEST(GpuPlan, OfSwappedOperandsHasTheResultsColumnsAsRows) {
  ProductOf of("matmul:m=16,n=512,k=512,dtype=f16,trans_b=true");
  const GpuProductPlan plan = gpu_ask_swapped_wgmma(of.context, of.product);
  EXPECT_TRUE(plan.is_swapped);
  EXPECT_EQ(plan.row->n, 16);
  EXPECT_EQ(plan.rows().size, plan.tile.n);
  EXPECT_EQ(plan.columns().size, 16);
  EXPECT_EQ(plan.warp_rows(), 16);
  EXPECT_EQ(plan.epilogue.staged, GpuEpilogue::Staged::Sums);
}

TEST(GpuPlan, OfWarpgroupsHasOneSwizzleAtomOfK) {
  ProductOf of("matmul:m=4096,n=4096,k=4096,dtype=f16");
  const GpuProductPlan plan = gpu_ask_wgmma(of.context, of.product);
  EXPECT_FALSE(plan.is_swapped);
  EXPECT_TRUE(plan.is_swizzled);
  EXPECT_EQ(plan.tile.k, 64);  // 128 bytes
  EXPECT_EQ(plan.chunk, plan.tile.k);
  EXPECT_EQ(plan.row->n, plan.columns().warp);
  EXPECT_GT(plan.pipeline.stages, 2);
}

}  // namespace
}  // namespace tilewright
