// Workloads of named operators: operands, operation counts and loop nests.
#include <gtest/gtest.h>

#include "ir/buffer.h"
#include "ir/ops/spec.h"
#include "ir/tensor_expr.h"
#include "ir/text/printer.h"

namespace tilewright {
namespace {

Workload workload(const std::string& text) { return make_workload(parse_spec(text)); }

struct Count {
  const char* spec;
  double flops;
};

class Flops : public testing::TestWithParam<Count> {};

// The figures in TVM's tests for its test workloads.
TEST_P(Flops, AreThoseOfTheReference) {
  EXPECT_EQ(workload(GetParam().spec).flops, GetParam().flops);
}

INSTANTIATE_TEST_SUITE_P(
    TestWorkloads, Flops,
    testing::Values(
        Count{"conv1d:n=1,l=256,ci=64,co=128,kernel=3,stride=2,pad=1", 6291456},
        Count{"conv2d:n=1,h=224,w=224,ci=3,co=64,kernel=7,stride=2,pad=3", 236027904},
        Count{"conv2d:n=1,h=224,w=224,ci=3,co=64,kernel=7,stride=2,pad=3,dilation=2", 223552896},
        Count{"conv2d:n=1,h=56,w=56,ci=64,co=128,kernel=3,stride=2,pad=1,groups=4", 28901376},
        Count{"depthwise_conv2d:n=1,h=112,w=112,c=32,kernel=3,pad=1", 7225344},
        Count{"conv2d_transpose:n=1,h=4,w=4,ci=512,co=256,kernel=4,stride=2,pad=1", 268435456},
        Count{"capsule_conv2d:n=1,h=16,w=16,ci=32,co=32,kernel=3,stride=2,pad=1", 75497472},
        Count{"matmul:m=128,n=128,k=128", 4194304}, Count{"norm:b=1,m=256,n=256", 131072},
        // There each element is divided.
        Count{"softmax:m=256,n=256", 262144 + 256}));

TEST(FlopCount, TakesDynamicDimensionsAtTheirMaximum) {
  EXPECT_EQ(workload("matmul:m=1..128,n=128,k=128").flops, 4194304);
  EXPECT_EQ(workload("conv1d:n=1,l=16..256,ci=64,co=128,kernel=3,stride=2,pad=1").flops, 6291456);
}

TEST(FlopCount, CountsTheEpilogue) {
  EXPECT_EQ(workload("matmul:m=4,n=8,k=16,epilogue=[bias,relu]").flops, 4 * 8 * (2 * 16 + 2));
}

std::string operands(const Workload& w) {
  std::string text;
  Program p = lower(w);
  for (const Param& param : p.params) {
    text += param.buffer->name + ":" + to_string(param.buffer->elem) + "[";
    for (const Expr& e : param.buffer->shape)
      text += (text.back() == '[' ? "" : ",") + to_string(e);
    text += "] " + std::string(name_of(param.role)) + "; ";
  }
  return text;
}

TEST(Operands, AreThoseOfTheContract) {
  EXPECT_EQ(operands(workload("matmul:m=2,n=3,k=4,epilogue=[bias,add]")),
            "A:f32[2,4] input; B:f32[4,3] weight; bias:f32[3] weight; D:f32[2,3] input; "
            "C:f32[2,3] output; ");
  EXPECT_EQ(operands(workload("matmul:m=2,n=3,k=4,batch=5,trans_a=true,trans_b=true,dtype=i8")),
            "A:i8[5,4,2] input; B:i8[5,3,4] weight; C:i32[5,2,3] output; ");
  EXPECT_EQ(operands(workload("conv2d:n=1,h=8,w=9,ci=4,co=6,kernel=3x5,groups=2")),
            "X:f32[1,8,9,4] input; W:f32[3,5,2,6] weight; Y:f32[1,6,5,6] output; ");
  EXPECT_EQ(operands(workload("conv2d:n=1,h=8,w=9,ci=4,co=6,kernel=3x5,groups=2,layout=nchw,"
                              "epilogue=[bias]")),
            "X:f32[1,4,8,9] input; W:f32[6,2,3,5] weight; bias:f32[6] weight; "
            "Y:f32[1,6,6,5] output; ");
  EXPECT_EQ(operands(workload("conv3d:n=1,d=4,h=8,w=9,ci=4,co=6,kernel=1")),
            "X:f32[1,4,8,9,4] input; W:f32[1,1,1,4,6] weight; Y:f32[1,4,8,9,6] output; ");
  EXPECT_EQ(operands(workload("conv2d_transpose:n=1,h=4,w=4,ci=3,co=5,kernel=4,stride=2,pad=1")),
            "X:f32[1,4,4,3] input; W:f32[4,4,3,5] weight; Y:f32[1,8,8,5] output; ");
  EXPECT_EQ(operands(workload("matmul:m=1..8,n=3,k=2..4")),
            "A:f32[m,k] input; B:f32[k,3] input; C:f32[m,3] output; ");
}

TEST(Lower, MatmulGolden) {
  EXPECT_EQ(
      to_string(lower(workload("matmul:m=4,n=16,k=8,dtype=bf16,epilogue=[bias,relu]"))),
      R"(program matmul(A: bf16[4, 8] input, B: bf16[8, 16] weight, bias: bf16[16] weight, C: bf16[4, 16] output) {
  block root() {
    alloc C_acc: f32[4, 16] global
    for i in 0..4 {
      for j in 0..16 {
        for k in 0..8 {
          block C_acc(vi: spatial 4 = i, vj: spatial 16 = j, vk: reduce 8 = k) {
            init {
              C_acc[vi, vj] = 0.0f32
            }
            C_acc[vi, vj] = (C_acc[vi, vj] + (cast<f32>(A[vi, vk]) * cast<f32>(B[vk, vj])))
          }
        }
      }
    }
    for i_1 in 0..4 {
      for j_1 in 0..16 {
        block C(vi_1: spatial 4 = i_1, vj_1: spatial 16 = j_1) {
          C[vi_1, vj_1] = cast<bf16>(max((C_acc[vi_1, vj_1] + cast<f32>(bias[vj_1])), 0.0f32))
        }
      }
    }
  }
}
)");
}

TEST(Lower, PaddingIsAStageOfItsOwn) {
  EXPECT_EQ(
      to_string(lower(workload("conv1d:n=1,l=8,ci=2,co=4,kernel=3,stride=2,pad=1"))),
      R"(program conv1d(X: f32[1, 8, 2] input, W: f32[3, 2, 4] weight, Y: f32[1, 4, 4] output) {
  block root() {
    alloc X_pad: f32[1, 10, 2] global
    for n in 0..1 {
      for l in 0..10 {
        for c in 0..2 {
          block X_pad(vn: spatial 1 = n, vl: spatial 10 = l, vc: spatial 2 = c) {
            X_pad[vn, vl, vc] = select(((vl >= 1) && (vl < 9)), X[vn, (vl - 1), vc], 0.0f32)
          }
        }
      }
    }
    for n_1 in 0..1 {
      for ol in 0..4 {
        for co in 0..4 {
          for kl in 0..3 {
            for ci in 0..2 {
              block Y(vn_1: spatial 1 = n_1, vol: spatial 4 = ol, vco: spatial 4 = co, vkl: reduce 3 = kl, vci: reduce 2 = ci) {
                init {
                  Y[vn_1, vol, vco] = 0.0f32
                }
                Y[vn_1, vol, vco] = (Y[vn_1, vol, vco] + (X_pad[vn_1, ((vol * 2) + vkl), vci] * W[vkl, vci, vco]))
              }
            }
          }
        }
      }
    }
  }
}
)");
}

TEST(Lower, DynamicDimensionsBoundLoops) {
  std::string text = to_string(lower(workload("softmax:m=1..64,n=8")));
  EXPECT_NE(text.find("dims(m: 1..64)"), std::string::npos) << text;
  EXPECT_NE(text.find("for i in 0..m {"), std::string::npos) << text;
}

}  // namespace
}  // namespace tilewright
