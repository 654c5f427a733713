// Weights in the storage formats of `w`, compared with plain loops.
#include "ir/ops/workload_builder.h"
#include "ir/weight_formats.h"
#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

// C += A * (B - zero) * scale with the group of each k.
void expect_matmul(OpRun& run, int m, int n, int k, int group, bool scaled, bool shifted) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int r = 0; r < k; ++r) {
        double w = run.in("B")(r, j);
        if (shifted) w -= run.in("B.zero")(r / group, j);
        if (scaled) w *= run.in("B.scale")(r / group, j);
        run.expected()(i, j) += run.in("A")(i, r) * w;
      }
  run.check();
}

TEST(Weight, GroupsShareAScale) {
  OpRun run("matmul:m=3,n=4,k=12,w.dtype=i4,w.group=4");
  expect_matmul(run, 3, 4, 12, 4, true, false);
}

TEST(Weight, ZeroPointsAreTakenOff) {
  OpRun run("matmul:m=3,n=4,k=12,w.dtype=u4,w.group=6,w.zero=u4,w.scale=f16");
  expect_matmul(run, 3, 4, 12, 6, true, true);
}

TEST(Weight, GroupsThatDoNotDivide) {
  OpRun run("matmul:m=2,n=3,k=11,w.dtype=u2,w.group=4,w.zero=f16");
  expect_matmul(run, 2, 3, 11, 4, true, true);
}

TEST(Weight, OneGroupAColumn) {
  OpRun run("matmul:m=2,n=3,k=11,w.dtype=i8,w.group=-1");
  ASSERT_EQ(const_shape(run.workload().inputs[2].buffer), (std::vector<int64_t>{1, 3}));
  expect_matmul(run, 2, 3, 11, 11, true, false);
}

TEST(Weight, GroupsLargerThanKAreOne) {
  OpRun run("matmul:m=2,n=3,k=11,w.dtype=i8,w.group=64");
  ASSERT_EQ(const_shape(run.workload().inputs[2].buffer), (std::vector<int64_t>{1, 3}));
  expect_matmul(run, 2, 3, 11, 64, true, false);
}

TEST(Weight, CodesAreConverted) {
  for (const char* type : {"nf4", "f4e2m1", "f8e4m3", "f8e5m2", "i1", "u1", "i2"}) {
    SCOPED_TRACE(type);
    OpRun run(std::string("matmul:m=2,n=3,k=8,w.group=4,w.scale=e8m0,w.dtype=") + type);
    expect_matmul(run, 2, 3, 8, 4, true, false);
  }
}

TEST(Weight, OffsetsAreAdded) {
  for (const char* offset : {"f32", "f16", "bf16"}) {
    SCOPED_TRACE(offset);
    OpRun run(std::string("matmul:m=3,n=4,k=11,w.dtype=u4,w.group=4,w.scale=f16,w.offset=") +
              offset);
    ASSERT_EQ(const_shape(run.workload().inputs[3].buffer), (std::vector<int64_t>{3, 4}));
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        for (int r = 0; r < 11; ++r) {
          run.expected()(i, j) +=
              run.in("A")(i, r) *
              (run.in("B")(r, j) * run.in("B.scale")(r / 4, j) + run.in("B.offset")(r / 4, j));
        }
    run.check();
  }
}

TEST(Weight, OffsetsOfAStackOfRowsThatAreQuantized) {
  const Workload w = make_workload(
      parse_spec("matmul:m=2,n=3,k=8,batch=2,trans_b=true,a.dtype=i8,w.dtype=u4,w.group=4,"
                 "w.offset=f16"));
  ASSERT_EQ(w.weight->offset, "B.offset");
  EXPECT_EQ(const_shape(w.inputs[3].buffer), (std::vector<int64_t>{2, 2, 3}));
  EXPECT_TRUE(w.weight->has("B.offset"));
  EXPECT_FALSE(w.weight->has("A"));
}

TEST(Weight, OffsetsOfAConvolution) {
  OpRun run("conv1d:n=1,l=5,ci=3,co=2,kernel=2,w.dtype=i4,w.group=4,w.offset=f32");
  for (int x = 0; x < 4; ++x)
    for (int o = 0; o < 2; ++o)
      for (int s = 0; s < 2; ++s)
        for (int c = 0; c < 3; ++c) {
          const int group = (s * 3 + c) / 4;
          run.expected()(0, x, o) +=
              run.in("X")(0, x + s, c) *
              (run.in("W")(s, c, o) * run.in("W.scale")(group, o) + run.in("W.offset")(group, o));
        }
  run.check();
}

TEST(Weight, IntegersStayExact) {
  OpRun run("matmul:m=2,n=3,k=20,dtype=u8,w.dtype=u4,w.zero=u8,w.group=5");
  EXPECT_EQ(run.workload().output()->elem, ElemType::i32);
  expect_matmul(run, 2, 3, 20, 5, false, true);
}

TEST(Weight, BatchesAndTransposedOperands) {
  OpRun run("matmul:m=2,n=3,k=8,batch=2,trans_b=true,w.dtype=i4,w.group=4");
  ASSERT_EQ(const_shape(run.workload().inputs[2].buffer), (std::vector<int64_t>{2, 2, 3}));
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 8; ++k)
          run.expected()(b, i, j) +=
              run.in("A")(b, i, k) * run.in("B")(b, j, k) * run.in("B.scale")(b, k / 4, j);
  run.check();
}

// k of a convolution runs through the window and the channels in the weight's storage order.
TEST(Weight, GroupsOfAConvolution) {
  OpRun run("conv2d:n=1,h=4,w=4,ci=3,co=2,kernel=2,w.dtype=i4,w.group=5");
  ASSERT_EQ(const_shape(run.workload().inputs[2].buffer), (std::vector<int64_t>{3, 2}));
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 3; ++x)
      for (int o = 0; o < 2; ++o)
        for (int r = 0; r < 2; ++r)
          for (int s = 0; s < 2; ++s)
            for (int c = 0; c < 3; ++c)
              run.expected()(0, y, x, o) += run.in("X")(0, y + r, x + s, c) *
                                            run.in("W")(r, s, c, o) *
                                            run.in("W.scale")(((r * 2 + s) * 3 + c) / 5, o);
  run.check();
}

TEST(Weight, GroupsOfAConvolutionWithChannelsFirst) {
  OpRun run("conv1d:n=1,l=5,ci=3,co=2,kernel=2,layout=nchw,w.dtype=u4,w.group=4,w.zero=u4");
  for (int x = 0; x < 4; ++x)
    for (int o = 0; o < 2; ++o)
      for (int c = 0; c < 3; ++c)
        for (int s = 0; s < 2; ++s) {
          int group = (c * 2 + s) / 4;
          run.expected()(0, o, x) += run.in("X")(0, c, x + s) *
                                     (run.in("W")(o, c, s) - run.in("W.zero")(group, o)) *
                                     run.in("W.scale")(group, o);
        }
  run.check();
}

TEST(Weight, DequantizationIsNoWork) {
  for (const char* keys : {"w.zero=u4", "w.offset=f32"}) {
    EXPECT_EQ(make_workload(parse_spec(std::string("matmul:m=2,n=3,k=8,w.dtype=u4,") + keys)).flops,
              make_workload(parse_spec("matmul:m=2,n=3,k=8")).flops);
  }
}

TEST(Weight, TheWorkloadSaysHowItIsStored) {
  WeightFormat want{.weight = "B",
                    .scale = "B.scale",
                    .zero = "B.zero",
                    .offset = "",
                    .group = 4,
                    .k_dims = {0},
                    .own_dims = {},
                    .column_dim = 1,
                    .keep = 2,
                    .of = 4,
                    .vector = 8};
  EXPECT_EQ(make_workload(parse_spec("matmul:m=2,n=16,k=8,w.dtype=u4,w.zero=u4,w.group=4,"
                                     "w.sparse=2:4,w.vector=8"))
                .weight,
            want);
  EXPECT_FALSE(make_workload(parse_spec("matmul:m=2,n=16,k=8")).weight.has_value());
}

// Both weights of a gated layer (dual GEMM) are stored as `w` says.
TEST(Weight, GateAndUpAreStoredAlike) {
  OpRun run(
      "gated_mlp:m=3,n=4,k=10,act=relu,w.dtype=u4,w.group=4,w.zero=u4,w.scale=f16,trans_b=true");
  auto worth = [&](const std::string& weight, int k, int j) {
    return (run.in(weight)(j, k) - run.in(weight + ".zero")(k / 4, j)) *
           run.in(weight + ".scale")(k / 4, j);
  };
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      double gate = 0, up = 0;
      for (int k = 0; k < 10; ++k) {
        gate += run.in("A")(i, k) * worth("G", k, j);
        up += run.in("A")(i, k) * worth("U", k, j);
      }
      run.expected()(i, j) = std::max(gate, 0.0) * up;
    }
  run.check();
  EXPECT_EQ(run.workload().flops,
            make_workload(parse_spec("gated_mlp:m=3,n=4,k=10,act=relu")).flops)
      << "what an element is worth is no work";
}

TEST(Weight, GateAndUpHaveOffsetsOfTheirOwn) {
  OpRun run("gated_mlp:m=2,n=3,k=6,act=relu,w.dtype=i4,w.group=4,w.offset=f32");
  auto worth = [&](const std::string& weight, int k, int j) {
    return run.in(weight)(k, j) * run.in(weight + ".scale")(k / 4, j) +
           run.in(weight + ".offset")(k / 4, j);
  };
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      double gate = 0, up = 0;
      for (int k = 0; k < 6; ++k) {
        gate += run.in("A")(i, k) * worth("G", k, j);
        up += run.in("A")(i, k) * worth("U", k, j);
      }
      run.expected()(i, j) = std::max(gate, 0.0) * up;
    }
  run.check();
  const std::vector<WeightFormat> formats = weight_formats(run.workload());
  ASSERT_EQ(formats.size(), 2u);
  EXPECT_EQ(formats[1].offset, "U.offset");
}

// Integer accumulators are exact and are converted to floats for the gate.
TEST(Weight, AGatedLayerOfIntegersIsAFloat) {
  OpRun run("gated_mlp:m=3,n=4,k=10,dtype=i8,out=f32,act=silu,w.dtype=i4");
  ASSERT_EQ(run.workload().stages[2].output->elem, ElemType::i32);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      double gate = 0, up = 0;
      for (int k = 0; k < 10; ++k) {
        gate += run.in("A")(i, k) * run.in("G")(k, j);
        up += run.in("A")(i, k) * run.in("U")(k, j);
      }
      run.expected()(i, j) = gate / (1 + std::exp(-gate)) * up;
    }
  run.check();
}

TEST(Weight, EachWeightOfAWorkloadHasItsForm) {
  const Workload gated =
      make_workload(parse_spec("gated_mlp:m=2,n=16,k=8,w.dtype=u4,w.zero=u4,w.group=4"));
  const std::vector<WeightFormat> formats = weight_formats(gated);
  ASSERT_EQ(formats.size(), 2);
  EXPECT_EQ(formats[0], *gated.weight);
  WeightFormat up = formats[0];
  up.weight = "U";
  up.scale = "U.scale";
  up.zero = "U.zero";
  EXPECT_EQ(formats[1], up);
  // Scales of the same shape and type as the weight are not further weights.
  EXPECT_EQ(weight_formats(make_workload(parse_spec("matmul:m=2,n=16,k=8,w.dtype=f8e4m3,w.group=1,"
                                                    "w.scale=f8e4m3")))
                .size(),
            1);
  EXPECT_TRUE(weight_formats(make_workload(parse_spec("gated_mlp:m=2,n=16,k=8"))).empty());
}

// Dequantized codes are rounded first, then scaled.
TEST(Weight, ValuesAreRoundedBeforeTheyAreScaled) {
  for (const ElemType to : {ElemType::f16, ElemType::bf16}) {
    OpRun run("matmul:m=2,n=3,k=16,w.dtype=nf4,w.group=8,w.values=" + to_string(to));
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j)
        for (int k = 0; k < 16; ++k) {
          run.expected()(i, j) +=
              run.in("A")(i, k) * round_to(to, run.in("B")(k, j)) * run.in("B.scale")(k / 8, j);
        }
    run.check(1e-9);
  }
}

TEST(Weight, TypesThatHoldAllValuesSayNothing) {
  auto canonical = [](const std::string& more) {
    return make_workload(parse_spec("matmul:m=2,n=3,k=16,w.dtype=" + more)).canonical;
  };
  EXPECT_EQ(canonical("nf4,w.values=none"), canonical("nf4"));
  EXPECT_NE(canonical("nf4,w.values=f16"), canonical("nf4"));
  EXPECT_NE(canonical("nf4,w.values=f16"), canonical("nf4,w.values=bf16"));
  for (const char* type : {"u8", "i4", "f4e2m1", "f8e4m3", "f8e5m2"}) {
    EXPECT_EQ(canonical(std::string(type) + ",w.values=bf16"), canonical(type)) << type;
  }
}

}  // namespace
}  // namespace tilewright
