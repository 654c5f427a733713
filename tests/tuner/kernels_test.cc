// Compiled kernels of every operator compared with the oracle, and each target's code.
#include <gtest/gtest.h>

#include "ir/ops/spec.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

// This machine and, if it has more than AVX2, the same machine without the rest.
std::vector<std::string> targets() {
  if (Target::parse("native").has("avx512f")) return {"native", "avx2"};
  return {"native"};
}

void expect_right_as_written_and_tuned(const std::string& spec, const Target& target) {
  Workload w = make_workload(parse_spec(spec));
  SketchInput input{w, target, 2};
  Trial none = Trial::first();
  expect_right(w, apply_sketch(default_sketch(), input, none), target);
  for (const Sketch& sketch : cpu_sketches()) {
    Trial first = Trial::first();
    expect_right(w, apply_sketch(sketch, input, first), target);
    int built = 0;
    for (uint64_t seed = 1; seed < 40 && built < 2; ++seed) {
      Trial random = Trial::random(seed);
      try {
        Schedule s = apply_sketch(sketch, input, random);
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + random.config());
        expect_right(w, s, target);
        ++built;
      } catch (const ScheduleError&) {
      } catch (const LoweringError&) {
      }
    }
    EXPECT_EQ(built, 2) << "nearly every random candidate is illegal";
  }
}

class EveryOperator : public testing::TestWithParam<const char*> {};

TEST_P(EveryOperator, IsRightAsWrittenAndTuned) {
  for (const std::string& machine : targets()) {
    SCOPED_TRACE(machine);
    expect_right_as_written_and_tuned(GetParam(), Target::parse(machine));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryOperator,
    testing::Values(
        "matmul:m=33,n=50,k=29", "matmul:m=1,n=70,k=40",
        "matmul:m=20,n=24,k=16,batch=3,trans_a=true", "matmul:m=20,n=24,k=16,trans_b=true",
        "matmul:m=30,n=40,k=20,epilogue=[bias,gelu]", "matmul:m=17,n=33,k=19,dtype=f64",
        "matmul:m=17,n=33,k=19,dtype=i8", "conv1d:n=1,l=30,ci=8,co=20,kernel=3,stride=2,pad=1",
        "conv2d:n=1,h=9,w=10,ci=5,co=18,kernel=3,pad=1",
        "conv2d:n=1,h=9,w=9,ci=8,co=16,kernel=3,pad=1,groups=2,dilation=2",
        "conv2d:n=1,h=8,w=8,ci=4,co=8,kernel=1x3,layout=nchw",
        "conv2d:n=2,h=5,w=7,ci=6,co=20,kernel=3,pad=1,layout=nchw,epilogue=[bias]",
        "conv3d:n=1,d=4,h=6,w=6,ci=4,co=8,kernel=3,pad=1",
        "depthwise_conv2d:n=1,h=10,w=10,c=20,kernel=3,pad=1",
        "conv2d_transpose:n=1,h=4,w=4,ci=6,co=10,kernel=4,stride=2,pad=1",
        "conv2d_transpose:n=1,h=4,w=4,ci=6,co=10,kernel=3,stride=2,epilogue=[relu]",
        "capsule_conv2d:n=1,h=6,w=6,ci=4,co=4,kernel=3,stride=2,pad=1", "softmax:m=20,n=130",
        "layer_norm:m=12,n=100", "rms_norm:m=9,n=200", "norm:b=2,m=30,n=200",
        "reduce:shape=40x70,axes=1,kind=max", "reduce:shape=40x70,axes=0,kind=sum",
        "reduce:shape=40x70,axes=[0,1],kind=mean",
        // Rows behind an axis of one element, windows as rows, rows that no width divides, short rows.
        "reduce:shape=1x12x108,axes=2,kind=max", "reduce:shape=1x20x10x10,axes=[2,3],kind=mean",
        "reduce:shape=3x4x5,axes=2,kind=sum", "softmax:m=20,n=40",
        "elementwise:shape=33x65,fn=gelu", "elementwise:shape=33x65,fn=tanh",
        "elementwise:shape=33x65,fn=add", "gather:rows=50,cols=40,index=30",
        "grouped_matmul:groups=3,blocks=5,rows=6,n=40,k=24",
        "grouped_matmul:groups=3,blocks=5,rows=6,n=40,k=24,trans_b=true,dtype=bf16,"
        "epilogue=[silu]",
        "grouped_matmul:groups=3,blocks=4,rows=8,n=48,k=64,w.dtype=u4,w.group=32,"
        "w.zero=u4",
        "gated_mlp:m=20,n=40,k=24", "gated_mlp:m=20,n=40,k=24,dtype=bf16,trans_b=true,act=gelu",
        "gated_mlp:m=5,n=48,k=64,dtype=bf16,w.dtype=u4,w.group=32,w.zero=u4,w.scale=f16",
        "gated_mlp:m=5,n=48,k=64,dtype=bf16,w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
        "grouped_matmul:groups=3,blocks=4,rows=8,n=48,k=64,w.dtype=u4,w.group=32,w.offset=f32",
        "gated_mlp:m=1,n=32,k=64,dtype=bf16,w.dtype=nf4,w.values=bf16,w.group=32,trans_b=true",
        "gated_mlp:m=6,n=32,k=64,w.sparse=2:4,w.vector=16",
        "gated_mlp:m=6,n=40,k=64,dtype=i8,out=f16,w.dtype=i8,w.scale=f16",
        "gated_mlp:m=6,n=40,k=64,dtype=f8e4m3,out=f16"));

INSTANTIATE_TEST_SUITE_P(
    NarrowFloats, EveryOperator,
    testing::Values("matmul:m=17,n=33,k=19,dtype=bf16", "matmul:m=17,n=33,k=19,dtype=f16",
                    "matmul:m=17,n=33,k=19,dtype=bf16,out=f32,epilogue=[bias,relu]",
                    "conv2d:n=1,h=9,w=10,ci=5,co=18,kernel=3,pad=1,dtype=f16",
                    "depthwise_conv2d:n=1,h=10,w=10,c=20,kernel=3,pad=1,dtype=f16",
                    "softmax:m=20,n=130,dtype=bf16", "layer_norm:m=12,n=100,dtype=f16",
                    "elementwise:shape=33x65,fn=gelu,dtype=bf16",
                    "reduce:shape=40x70,axes=1,kind=max,dtype=f16",
                    "gather:rows=50,cols=40,index=30,dtype=f16"));

// Operators that intrinsics compute, with sizes that they do not divide.
INSTANTIATE_TEST_SUITE_P(
    Intrinsics, EveryOperator,
    testing::Values("matmul:m=37,n=70,k=67,dtype=i8", "matmul:m=12,n=64,k=128,dtype=i8",
                    "matmul:m=1,n=40,k=64,dtype=i8", "matmul:m=20,n=33,k=30,dtype=u8",
                    "matmul:m=9,n=40,k=24,batch=3,dtype=i8",
                    "matmul:m=9,n=40,k=24,dtype=i8,trans_b=true",
                    "matmul:m=9,n=40,k=24,dtype=i8,trans_a=true",
                    "matmul:m=37,n=70,k=67,dtype=bf16", "matmul:m=12,n=64,k=128,dtype=bf16,out=f32",
                    "matmul:m=20,n=40,k=50,dtype=bf16,epilogue=[bias,gelu]",
                    "conv2d:n=1,h=7,w=8,ci=6,co=20,kernel=3,pad=1,dtype=i8",
                    "conv2d:n=1,h=7,w=7,ci=16,co=32,kernel=1,stride=2,dtype=i8",
                    "conv2d:n=2,h=7,w=8,ci=7,co=18,kernel=3,pad=1,dtype=bf16",
                    "conv2d:n=1,h=7,w=8,ci=8,co=16,kernel=3,groups=2,dtype=i8",
                    "conv2d:n=1,h=7,w=8,ci=8,co=16,kernel=3,layout=nchw,dtype=i8",
                    "conv2d_transpose:n=1,h=4,w=4,ci=6,co=10,kernel=4,stride=2,pad=1,dtype=i8",
                    R"s(expr:expr="C[i,j] += A[i,k] * B[k,j]",dims.i=30,dims.j=48,dims.k=70,)s"
                    R"s(dtype=u8,dtypes.B=i8,weights=B)s"));

INSTANTIATE_TEST_SUITE_P(
    Expressions, EveryOperator,
    testing::Values(
        R"s(expr:expr="C[i,j] += A[i,k] * B[j,k]",dims.i=17,dims.j=33,dims.k=20)s",
        R"s(expr:expr="S[i] += A[i,j]; Y[i,j] = A[i,j] - S[i] / 7",dims.i=12,dims.j=70)s",
        R"s(expr:expr="M[i] max= abs(A[i,j]); Y[i] = sqrt(M[i]) + 1",dims.i=12,dims.j=70)s",
        R"s(expr:expr="Y[h,c] += X[h*2+r,c] * W[r,c]",dims.h=9,dims.c=40,dims.r=3)s",
        R"s(expr:expr="Y[i,j] = select(A[i,j] > 0, A[i,j], B[j])",dims.i=9,dims.j=40)s",
        R"s({"op": "expr", "expr": "C[i,j] += A[i,k] * B[j,k]",
            "dims": {"i": 17, "j": 33, "k": 20},
            "dtypes": {"A": "f8e4m3", "B": "f8e5m2", "C": "f32"}})s",
        R"s({"op": "expr", "expr": "C[i,j] += A[i,k] * B[j,k]",
            "dims": {"i": 17, "j": 33, "k": 20}, "dtypes": {"A": "i8", "B": "u8", "C": "i32"}})s",
        R"s({"op": "expr", "expr": "Y[i,j] = max(A[i,j], B[j])", "dims": {"i": 9, "j": 40},
            "dtypes": {"A": "bf16", "B": "f16", "Y": "f8e4m3"}})s"));

class EveryTarget : public testing::TestWithParam<const char*> {};

TEST_P(EveryTarget, ComputesTheSame) {
  Target target = Target::parse(GetParam());
  if (!target.missing_features().empty()) {
    GTEST_SKIP() << "this machine does not run " << GetParam();
  }
  for (const char* spec : {"matmul:m=21,n=45,k=30,epilogue=[bias,relu]",
                           "matmul:m=21,n=45,k=30,dtype=i8", "matmul:m=21,n=45,k=30,dtype=bf16"}) {
    SCOPED_TRACE(spec);
    Workload w = make_workload(parse_spec(spec));
    SketchInput input{w, target, 2};
    Trial first = Trial::first();
    expect_right(w, apply_sketch(cpu_sketches()[0], input, first), target);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryTarget, testing::Values("avx512", "avx2", "generic"));

// Keywords, macros, and names that every kernel has.
TEST(Kernels, DimensionsAndTensorsMayHaveAnyName) {
  for (const std::string& target : targets()) {
    expect_right_as_written_and_tuned(
        R"(expr:expr="dims[struct,unix] += int32_t[struct,while] * tw_context[while,unix]",)"
        "dims.struct=9,dims.unix=33,dims.while=20",
        Target::parse(target));
  }
}

}  // namespace
}  // namespace tilewright
