// Sizes of operands as the caller of a kernel computes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "ir/oracle/evaluate.h"
#include "runtime/tensor/operands.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

std::vector<int64_t> sizes_at(const KernelParam& param, const std::vector<int64_t>& dims) {
  std::vector<int64_t> shape;
  for (const KernelExtent& e : param.shape) shape.push_back(e.at(dims));
  return shape;
}

// The caller's formulas and the expressions of the workload must agree at every size.
void expect_shapes(const std::string& spec) {
  Workload w = parse_workload(spec);
  std::vector<KernelParam> params = describe_params(lower(w));
  ASSERT_EQ(w.dims.size(), 1u);
  for (int64_t size = w.dims[0].min; size <= w.dims[0].max; ++size) {
    std::vector<OperandInfo> operands = operands_of(w, {{w.dims[0].var.name(), size}});
    ASSERT_EQ(operands.size(), params.size());
    for (size_t i = 0; i < params.size(); ++i) {
      EXPECT_EQ(params[i].name, operands[i].name);
      EXPECT_EQ(sizes_at(params[i], {size}), operands[i].shape)
          << params[i].name << " of " << spec << " at " << size;
    }
  }
}

TEST(DescribeParams, FollowTheWorkload) {
  expect_shapes("matmul:m=1..9,n=4,k=4");
  expect_shapes("conv1d:n=1,l=4..30,ci=4,co=4,kernel=3,pad=1");
  expect_shapes("conv1d:n=1,l=4..30,ci=4,co=4,kernel=3,stride=2");
  expect_shapes("conv2d:n=1,h=5..30,w=8,ci=4,co=4,kernel=3,stride=3,pad=1,dilation=2");
  expect_shapes("conv2d:n=1,h=8,w=3..20,ci=4,co=4,kernel=2,layout=nchw");
  expect_shapes("conv2d_transpose:n=1,h=2..9,w=4,ci=4,co=4,kernel=4,stride=2,pad=1");
  expect_shapes("depthwise_conv2d:n=1,h=4..19,w=4,c=4,kernel=3,stride=2,pad=1");
  expect_shapes("expr:expr=\"C[i] += A[2*i + r]\",dims.i=1..9,dims.r=3");
}

TEST(DescribeParams, KeepDimensionsAsTheyAre) {
  Workload w = parse_workload("matmul:m=1..9,n=4,k=2..7");
  std::vector<KernelParam> params = describe_params(lower(w));
  EXPECT_EQ(params[0].shape,
            (std::vector<KernelExtent>{KernelExtent::dimension(0), KernelExtent::dimension(1)}));
  EXPECT_EQ(params[1].shape, (std::vector<KernelExtent>{KernelExtent::dimension(1), 4}));
}

// A product of two dimensions is no formula.
TEST(DescribeParams, RefuseWhatTheCallerCannotCompute) {
  Program program = lower(parse_workload("matmul:m=1..9,n=4,k=2..7"));
  Expr product = program.dims[0].var * program.dims[1].var;
  program.params.push_back({make_buffer("Z", ElemType::f32, {product}), ParamRole::Output});
  try {
    describe_params(program);
    FAIL() << "the product of two dimensions";
  } catch (const LoweringError& e) {
    EXPECT_THAT(e.what(), testing::AllOf(HasSubstr("a size of 'Z' is (k * m)"),
                                         HasSubstr("a sum of dynamic dimensions times constants")));
  }
}

TEST(KernelExtent, ReadsAndWritesItsForms) {
  KernelExtent formula;
  formula.factors = {0, 3};
  formula.offset = -5;
  formula.divisor = 2;
  EXPECT_EQ(formula.at({100, 7}), 8);
  EXPECT_EQ(formula.at({100, 1}), -1) << "the floor";
  EXPECT_EQ(formula.to_c({"m", "l"}), "(3 * l - 5) / 2");
  EXPECT_EQ(KernelExtent(4).to_c({}), "4");
  EXPECT_EQ(KernelExtent::dimension(1).to_c({"m", "l"}), "l");
  EXPECT_THROW(formula.at({100}), Error);
  EXPECT_THROW(formula.at({100, INT64_MAX / 2}), Error) << "3 of it are more than 64 bits";

  KernelDescription d;
  d.main.symbol = "f";
  d.main.params.push_back(
      {"Y", ElemType::f32, {4, KernelExtent::dimension(1), formula}, ParamRole::Output});
  d.dims = {"m", "l"};
  std::string text = d.to_json();
  EXPECT_THAT(text, HasSubstr("[4,-2,{")) << "numbers as they always stood in databases";
  EXPECT_EQ(KernelDescription::from_json(text).main.params[0].shape, d.main.params[0].shape);
  std::string broken = text;
  broken.replace(broken.find("\"divisor\":2"), 11, "\"divisor\":0");
  try {
    KernelDescription::from_json(broken);
    FAIL() << broken;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("key 'divisor' is not positive"));
  }
  broken = text;
  broken.replace(broken.find("[4,-2,"), 6, "[4,-9223372036854775808,");
  try {
    KernelDescription::from_json(broken);
    FAIL() << broken;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("stands for no dimension: a kernel has at most 64"));
  }
}

}  // namespace
}  // namespace tilewright
