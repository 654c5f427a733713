// The checks of a caller's tensors, weights and workspace: what each refusal says.
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A kernel of one range of sizes that takes B packed, ready to be launched.
class ServingTensors : public ::testing::Test {
 protected:
  ServingTensors()
      : db_{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .scratch = 100}},
        opened_(db_.path()), prepared_(opened_.library, "matmul:m=1..64,n=8,k=16"),
        packed_(prepared_.kernel, b_) {}

  // The refusal of a launch with these operands and this workspace.
  std::string refusal(size_t workspace_bytes = 100) {
    tw_status status =
        launch(prepared_.kernel, a_, nullptr, c_, packed_.weights, workspace_, workspace_bytes);
    return status == TW_OK ? "ok" : std::string(tw_status_name(status)) + ": " + tw_last_error();
  }

  Database db_;
  Opened opened_;
  PreparedSpec prepared_;
  Floats a_{{5, 16}, 1}, b_{{16, 8}, 2}, c_{{5, 8}};
  Packed packed_;
  alignas(64) char workspace_[256] = {};
};

TEST_F(ServingTensors, TellWhatTheKernelTakes) {
  ASSERT_EQ(tw_operand_count(prepared_.kernel), 3u);
  auto operand = TW_INIT(tw_operand);
  ASSERT_EQ(tw_operand_at(prepared_.kernel, 0, &operand), TW_OK) << tw_last_error();
  EXPECT_STREQ(operand.name, "A");
  EXPECT_EQ(operand.role, TW_INPUT);
  EXPECT_EQ(operand.packed, 0);
  EXPECT_EQ(operand.ndim, 2);
  EXPECT_EQ(operand.shape[0], -1);
  EXPECT_EQ(operand.shape[1], 16);
  EXPECT_EQ(operand.dtype.code, kDLFloat);
  EXPECT_EQ(operand.dtype.bits, 32);
  EXPECT_EQ(operand.alignment, 64u);
  ASSERT_EQ(tw_operand_at(prepared_.kernel, 1, &operand), TW_OK) << tw_last_error();
  EXPECT_STREQ(operand.name, "B");
  EXPECT_EQ(operand.role, TW_WEIGHT);
  EXPECT_EQ(operand.packed, 1);
  ASSERT_EQ(tw_operand_at(prepared_.kernel, 2, &operand), TW_OK) << tw_last_error();
  EXPECT_EQ(operand.role, TW_OUTPUT);
  EXPECT_EQ(tw_operand_at(prepared_.kernel, 3, &operand), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "index is 3; there are 3 operands");
}

TEST_F(ServingTensors, AreServedAtEachSize) {
  EXPECT_EQ(refusal(), "ok");
  EXPECT_EQ(product_fault(a_, b_, c_, 0), "");
}

TEST_F(ServingTensors, OfAnotherTypeAreRefused) {
  a_.tensor.dtype = {kDLBfloat, 16, 1};
  EXPECT_EQ(refusal(), "tensor: operand 'A': element type bf16; expected f32");
  a_.tensor.dtype = {kDLFloat, 32, 4};
  EXPECT_EQ(refusal(),
            "tensor: operand 'A': element type DLPack type code 2 of 32 bits in 4 lanes; "
            "expected f32");
}

TEST_F(ServingTensors, OnAnotherDeviceAreRefused) {
  c_.tensor.device = {kDLCUDA, 1};
  EXPECT_EQ(refusal(), "tensor: operand 'C': lies on GPU 1; expected the CPU");
}

TEST_F(ServingTensors, OfAnotherShapeAreRefused) {
  c_.shape[0] = 6;
  EXPECT_EQ(refusal(), "tensor: operand 'C': dimension 0 is 6; expected 5 of [m, 8]");
  c_.shape[0] = 5;
  a_.shape[1] = 15;
  EXPECT_EQ(refusal(), "tensor: operand 'A': dimension 1 is 15; expected 16 of [m, 16]");
  a_.shape[1] = 16;
  a_.tensor.ndim = 1;
  EXPECT_EQ(refusal(), "tensor: operand 'A': 1 dimensions; expected 2");
  a_.tensor.ndim = 2;
  a_.shape[0] = 65;
  EXPECT_EQ(refusal(), "tensor: operand 'A': dimension 0 (m) is 65; expected 1 to 64");
}

TEST_F(ServingTensors, ThatAreNotCompactAreRefused) {
  int64_t strides[] = {16, 1};
  a_.tensor.strides = strides;
  EXPECT_EQ(refusal(), "ok");
  strides[0] = 32;
  EXPECT_EQ(refusal(),
            "tensor: operand 'A': dimension 0 has stride 32; expected 16: compact and row-major");
  // The stride of a single row is of no consequence.
  a_.shape[0] = c_.shape[0] = 1;
  EXPECT_EQ(refusal(), "ok");
}

TEST_F(ServingTensors, ThatAreNotAlignedAreRefused) {
  a_.tensor.byte_offset = 16;
  EXPECT_EQ(refusal(),
            "tensor: operand 'A': its first element is aligned to 16 bytes; expected 64");
}

TEST_F(ServingTensors, ThatAreMissingAreRefused) {
  a_.tensor.data = nullptr;
  EXPECT_EQ(refusal(), "tensor: operand 'A': its data is null");
  const DLTensor* tensors[] = {nullptr, nullptr, &c_.tensor};
  auto args = TW_INIT(tw_launch_args);
  args.tensors = tensors;
  args.tensor_count = 3;
  args.weights = packed_.weights;
  EXPECT_EQ(tw_launch(prepared_.kernel, &args), TW_ERROR_TENSOR);
  EXPECT_STREQ(tw_last_error(), "operand 'A': no tensor");
  args.tensor_count = 2;
  EXPECT_EQ(tw_launch(prepared_.kernel, &args), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "2 tensors; matmul:m=1..64,n=8,k=16 takes 3: A, B, C");
}

TEST_F(ServingTensors, NeedTheWorkspaceThatWasAskedFor) {
  size_t bytes = 0;
  ASSERT_EQ(tw_workspace_bytes(prepared_.kernel, 2, &bytes), TW_OK);
  EXPECT_EQ(bytes, 200u);
  EXPECT_EQ(refusal(99),
            "memory: the workspace has 99 bytes; matmul:m=1..64,n=8,k=16 on 1 thread needs 100");
  EXPECT_EQ(tw_workspace_bytes(prepared_.kernel, 0, &bytes), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(), "threads is 0; expected 1 or more");
  tw_status status =
      launch(prepared_.kernel, a_, nullptr, c_, packed_.weights, workspace_ + 4, 200);
  EXPECT_EQ(status, TW_ERROR_MEMORY);
  EXPECT_STREQ(tw_last_error(), "the workspace is not aligned to 64 bytes");
}

TEST_F(ServingTensors, NeedTheWeightsOfTheirKernel) {
  EXPECT_EQ(launch(prepared_.kernel, a_, nullptr, c_, nullptr, workspace_, 100), TW_ERROR_WEIGHTS);
  const std::string own = tw_kernel_identity(prepared_.kernel);
  EXPECT_EQ(own.size(), 32u);
  EXPECT_EQ(tw_last_error(), "the kernel of matmul:m=1..64,n=8,k=16 takes packed weights " + own +
                                 ", and none were given; tw_pack_weights makes them");

  Database db{{.spec = "matmul:m=1..64,n=8,k=16", .dynamic = true, .tag = 9}};
  Opened opened(db.path());
  PreparedSpec other(opened.library, "matmul:m=1..64,n=8,k=16");
  Packed foreign(other.kernel, b_);
  EXPECT_EQ(launch(prepared_.kernel, a_, nullptr, c_, foreign.weights, workspace_, 100),
            TW_ERROR_WEIGHTS);
  EXPECT_EQ(tw_last_error(), "the kernel of matmul:m=1..64,n=8,k=16 takes packed weights " + own +
                                 "; these are " + tw_weights_identity(foreign.weights));
}

// Weights belong to a kernel, whoever loads it, and under whichever spec it serves.
TEST_F(ServingTensors, TakeWeightsThatWerePackedElsewhereForTheSameKernel) {
  Opened again(db_.path());
  PreparedSpec near(again.library, "matmul:m=5,n=8,k=16");
  ASSERT_EQ(near.report().outcome, TW_NEAR);
  EXPECT_STREQ(tw_kernel_identity(near.kernel), tw_weights_identity(packed_.weights));
  ASSERT_EQ(launch(near.kernel, a_, nullptr, c_, packed_.weights, workspace_, 100), TW_OK)
      << tw_last_error();
  EXPECT_EQ(product_fault(a_, b_, c_, 0), "");
  EXPECT_EQ(tw_weights_bytes(packed_.weights), 16u * 8 * 4);
}

TEST_F(ServingTensors, PackingTakesTheOperandsThatItLaysOut) {
  tw_weights* weights = nullptr;
  EXPECT_EQ(tw_pack_weights(prepared_.kernel, nullptr, 0, nullptr, &weights), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(),
               "operand 'B' is packed by the kernel of matmul:m=1..64,n=8,k=16, and was not given");
  tw_named_tensor named = {"A", &a_.tensor};
  EXPECT_EQ(tw_pack_weights(prepared_.kernel, &named, 1, nullptr, &weights), TW_ERROR_ARGUMENT);
  EXPECT_STREQ(tw_last_error(),
               "'A' is not packed by the kernel of matmul:m=1..64,n=8,k=16; it packs 'B'");
  Floats wrong({16, 9});
  named = {"B", &wrong.tensor};
  EXPECT_EQ(tw_pack_weights(prepared_.kernel, &named, 1, nullptr, &weights), TW_ERROR_TENSOR);
  EXPECT_STREQ(tw_last_error(), "operand 'B': dimension 1 is 9; expected 8 of [16, 8]");
  EXPECT_EQ(weights, nullptr);
}

TEST(ServingPlain, AKernelThatPacksNothingTakesItsWeightAsATensor) {
  Database db{{.packed = false, .tag = 5}};
  Opened opened(db.path());
  PreparedSpec p(opened.library, "matmul:m=4,n=8,k=16");
  Floats a({4, 16}, 1), b({16, 8}, 2), c({4, 8});
  ASSERT_EQ(launch(p.kernel, a, &b, c), TW_OK) << tw_last_error();
  EXPECT_EQ(product_fault(a, b, c, 5), "");
  EXPECT_STREQ(tw_kernel_identity(p.kernel), "");
  EXPECT_EQ(launch(p.kernel, a, nullptr, c), TW_ERROR_TENSOR);
  EXPECT_STREQ(tw_last_error(), "operand 'B': no tensor");
  tw_weights* none = nullptr;
  ASSERT_EQ(tw_pack_weights(p.kernel, nullptr, 0, nullptr, &none), TW_OK) << tw_last_error();
  EXPECT_EQ(launch(p.kernel, a, &b, c, none), TW_OK) << tw_last_error();
  tw_free_weights(none);
}

}  // namespace
}  // namespace tilewright::serving::testing
