// Compares every named operator with plain loops.
#include <fmt/format.h>

#include <array>

#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

TEST(Matmul, Plain) {
  OpRun run("matmul:m=5,n=7,k=9");
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 7; ++j)
      for (int k = 0; k < 9; ++k) run.expected()(i, j) += run.in("A")(i, k) * run.in("B")(k, j);
  run.check();
}

TEST(Matmul, BatchedAndTransposed) {
  OpRun run("matmul:m=3,n=4,k=5,batch=2,trans_a=true,trans_b=true");
  for (int b = 0; b < 2; ++b)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        for (int k = 0; k < 5; ++k)
          run.expected()(b, i, j) += run.in("A")(b, k, i) * run.in("B")(b, j, k);
  run.check();
}

TEST(Matmul, EpilogueRunsInOrder) {
  OpRun run("matmul:m=3,n=4,k=5,epilogue=[bias,gelu,add,silu,relu]");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      double sum = 0;
      for (int k = 0; k < 5; ++k) sum += run.in("A")(i, k) * run.in("B")(k, j);
      double value = gelu(sum + run.in("bias")(j)) + run.in("D")(i, j);
      run.expected()(i, j) = std::max(value * sigmoid(value), 0.0);
    }
  run.check();
}

TEST(Matmul, IntegersAreExact) {
  OpRun run("matmul:m=3,n=4,k=50,dtype=i8,epilogue=[bias,relu]");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      double sum = run.in("bias")(j);
      for (int k = 0; k < 50; ++k) sum += run.in("A")(i, k) * run.in("B")(k, j);
      run.expected()(i, j) = std::max(sum, 0.0);
    }
  run.check(0);
}

TEST(Matmul, IntegerSumBecomesFloatOutput) {
  OpRun run("matmul:m=3,n=4,k=50,dtype=u8,out=f32,epilogue=[bias,silu]");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      double sum = run.in("bias")(j);
      for (int k = 0; k < 50; ++k) sum += run.in("A")(i, k) * run.in("B")(k, j);
      run.expected()(i, j) = sum * sigmoid(sum);
    }
  run.check();
}

TEST(Matmul, NarrowFloatsAccumulateInF32) {
  OpRun run("matmul:m=3,n=4,k=70,dtype=bf16");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) {
      double sum = 0;
      for (int k = 0; k < 70; ++k) sum += run.in("A")(i, k) * run.in("B")(k, j);
      run.expected()(i, j) = round_to(ElemType::bf16, sum);
    }
  run.check();
}

TEST(Matmul, DynamicSizes) {
  OpRun run("matmul:m=1..8,n=4,k=2..6", {{"m", 3}, {"k", 5}});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 5; ++k) run.expected()(i, j) += run.in("A")(i, k) * run.in("B")(k, j);
  run.check();
}

// The element of `x` at an index that may lie in the padding.
double padded(const View& x, int n, int y, int w, int c) {
  const auto& shape = x.array.shape;
  bool inside = y >= 0 && y < shape[1] && w >= 0 && w < shape[2];
  return inside ? x(n, y, w, c) : 0;
}

TEST(Conv2d, StridesPadsDilatesAndGroups) {
  OpRun run(
      "conv2d:n=2,h=9,w=8,ci=4,co=6,kernel=3x2,stride=2x1,pad=2x1,dilation=2x3,groups=2,"
      "epilogue=[bias,relu]");
  View y = run.expected();
  for (int n = 0; n < 2; ++n)
    for (int oh = 0; oh < y.array.shape[1]; ++oh)
      for (int ow = 0; ow < y.array.shape[2]; ++ow)
        for (int co = 0; co < 6; ++co) {
          double sum = run.in("bias")(co);
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 2; ++s)
              for (int c = 0; c < 2; ++c)
                sum += padded(run.in("X"), n, oh * 2 - 2 + r * 2, ow - 1 + s * 3, co / 3 * 2 + c) *
                       run.in("W")(r, s, c, co);
          y(n, oh, ow, co) = std::max(sum, 0.0);
        }
  EXPECT_EQ(y.array.shape, (std::vector<int64_t>{2, 5, 7, 6}));
  run.check();
}

TEST(Conv2d, ChannelsFirst) {
  OpRun run("conv2d:n=2,h=6,w=5,ci=4,co=6,kernel=3,pad=1,groups=2,layout=nchw,epilogue=[bias]");
  View x = run.in("X"), y = run.expected();
  for (int n = 0; n < 2; ++n)
    for (int co = 0; co < 6; ++co)
      for (int oh = 0; oh < 6; ++oh)
        for (int ow = 0; ow < 5; ++ow) {
          y(n, co, oh, ow) = run.in("bias")(co);
          for (int c = 0; c < 2; ++c)
            for (int r = 0; r < 3; ++r)
              for (int s = 0; s < 3; ++s) {
                int h = oh + r - 1, w = ow + s - 1;
                if (h < 0 || h >= 6 || w < 0 || w >= 5) continue;
                y(n, co, oh, ow) += x(n, co / 3 * 2 + c, h, w) * run.in("W")(co, c, r, s);
              }
        }
  run.check();
}

TEST(Conv1d, StridesAndPads) {
  OpRun run("conv1d:n=2,l=9,ci=3,co=4,kernel=3,stride=2,pad=1");
  View y = run.expected();
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 5; ++o)
      for (int co = 0; co < 4; ++co)
        for (int r = 0; r < 3; ++r)
          for (int c = 0; c < 3; ++c) {
            int l = o * 2 - 1 + r;
            if (l >= 0 && l < 9) y(n, o, co) += run.in("X")(n, l, c) * run.in("W")(r, c, co);
          }
  run.check();
}

TEST(Conv3d, Pads) {
  OpRun run("conv3d:n=1,d=3,h=4,w=3,ci=2,co=3,kernel=2x3x1,pad=[1,1,0]");
  View y = run.expected();
  EXPECT_EQ(y.array.shape, (std::vector<int64_t>{1, 4, 4, 3, 3}));
  for (int od = 0; od < 4; ++od)
    for (int oh = 0; oh < 4; ++oh)
      for (int ow = 0; ow < 3; ++ow)
        for (int co = 0; co < 3; ++co)
          for (int q = 0; q < 2; ++q)
            for (int r = 0; r < 3; ++r)
              for (int c = 0; c < 2; ++c) {
                int d = od + q - 1, h = oh + r - 1;
                if (d < 0 || d >= 3 || h < 0 || h >= 4) continue;
                y(0, od, oh, ow, co) += run.in("X")(0, d, h, ow, c) * run.in("W")(q, r, 0, c, co);
              }
  run.check();
}

TEST(DepthwiseConv2d, KeepsChannelsApart) {
  OpRun run("depthwise_conv2d:n=2,h=7,w=6,c=3,kernel=3,stride=2,pad=1,dilation=1x2");
  View y = run.expected();
  for (int n = 0; n < 2; ++n)
    for (int oh = 0; oh < y.array.shape[1]; ++oh)
      for (int ow = 0; ow < y.array.shape[2]; ++ow)
        for (int c = 0; c < 3; ++c)
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s)
              y(n, oh, ow, c) += padded(run.in("X"), n, oh * 2 - 1 + r, ow * 2 - 1 + s * 2, c) *
                                 run.in("W")(r, s, c);
  run.check();
}

// Scatters each input element, as the gradient of a convolution does.
TEST(Conv2dTranspose, ScattersTheInput) {
  for (const char* geometry :
       {"kernel=4,stride=2,pad=1", "kernel=3,stride=1,pad=0", "kernel=2x5,stride=3x2,pad=1x2"}) {
    SCOPED_TRACE(geometry);
    OpRun run(std::string("conv2d_transpose:n=2,h=3,w=4,ci=2,co=3,") + geometry);
    Spec spec = parse_spec(std::string("conv2d_transpose:n=2,h=3,w=4,ci=2,co=3,") + geometry);
    auto per_axis = [&](const char* key, size_t d) {
      const auto& values = spec.get<std::vector<int64_t>>(key);
      return values[values.size() == 1 ? 0 : d];
    };
    View y = run.expected(), W = run.in("W");
    for (int n = 0; n < 2; ++n)
      for (int h = 0; h < 3; ++h)
        for (int w = 0; w < 4; ++w)
          for (int r = 0; r < W.array.shape[0]; ++r)
            for (int s = 0; s < W.array.shape[1]; ++s) {
              int64_t oh = h * per_axis("stride", 0) + r - per_axis("pad", 0);
              int64_t ow = w * per_axis("stride", 1) + s - per_axis("pad", 1);
              bool inside = oh >= 0 && oh < y.array.shape[1] && ow >= 0 && ow < y.array.shape[2];
              if (!inside) continue;
              for (int ci = 0; ci < 2; ++ci)
                for (int co = 0; co < 3; ++co)
                  y(n, oh, ow, co) += run.in("X")(n, h, w, ci) * W(r, s, ci, co);
            }
    run.check();
  }
}

TEST(CapsuleConv2d, MultipliesMatrices) {
  OpRun run("capsule_conv2d:n=1,h=5,w=4,ci=2,co=3,kernel=3,stride=2,pad=1,capsule=2");
  View x = run.in("X"), y = run.expected();
  for (int oh = 0; oh < 3; ++oh)
    for (int ow = 0; ow < 2; ++ow)
      for (int a = 0; a < 2; ++a)
        for (int b = 0; b < 2; ++b)
          for (int co = 0; co < 3; ++co)
            for (int r = 0; r < 3; ++r)
              for (int s = 0; s < 3; ++s) {
                int h = oh * 2 + r - 1, w = ow * 2 + s - 1;
                if (h < 0 || h >= 5 || w < 0 || w >= 4) continue;
                for (int k = 0; k < 2; ++k)
                  for (int ci = 0; ci < 2; ++ci)
                    y(0, oh, ow, a, b, co) +=
                        x(0, h, w, a, k, ci) * run.in("W")(r, s, k, b, ci, co);
              }
  run.check();
}

TEST(Softmax, RowsSumToOne) {
  OpRun run("softmax:m=3,n=6");
  run.in("X")(1, 2) = 200;  // exp overflows unless the row's maximum is subtracted
  for (int i = 0; i < 3; ++i) {
    double top = run.in("X")(i, 0), sum = 0;
    for (int j = 0; j < 6; ++j) top = std::max(top, run.in("X")(i, j));
    for (int j = 0; j < 6; ++j) sum += std::exp(run.in("X")(i, j) - top);
    for (int j = 0; j < 6; ++j) run.expected()(i, j) = std::exp(run.in("X")(i, j) - top) / sum;
  }
  run.check();
}

TEST(LayerNorm, Affine) {
  OpRun run("layer_norm:m=3,n=8,eps=0.01,affine=true");
  for (int i = 0; i < 3; ++i) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 8; ++j) mean += run.in("X")(i, j) / 8;
    for (int j = 0; j < 8; ++j) variance += std::pow(run.in("X")(i, j) - mean, 2) / 8;
    for (int j = 0; j < 8; ++j) {
      double value = (run.in("X")(i, j) - mean) / std::sqrt(variance + 0.01);
      run.expected()(i, j) = value * run.in("gamma")(j) + run.in("beta")(j);
    }
  }
  run.check();
}

TEST(LayerNorm, DynamicRowLength) {
  OpRun run("layer_norm:m=2,n=2..16", {{"n", 5}});
  for (int i = 0; i < 2; ++i) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 5; ++j) mean += run.in("X")(i, j) / 5;
    for (int j = 0; j < 5; ++j) variance += std::pow(run.in("X")(i, j) - mean, 2) / 5;
    for (int j = 0; j < 5; ++j)
      run.expected()(i, j) = (run.in("X")(i, j) - mean) / std::sqrt(variance + 1e-5);
  }
  run.check();
}

TEST(RmsNorm, AffineInHalfPrecision) {
  OpRun run("rms_norm:m=3,n=8,affine=true,dtype=f16");
  for (int i = 0; i < 3; ++i) {
    double squares = 0;
    for (int j = 0; j < 8; ++j) squares += std::pow(run.in("X")(i, j), 2) / 8;
    for (int j = 0; j < 8; ++j)
      run.expected()(i, j) = round_to(
          ElemType::f16, run.in("X")(i, j) / std::sqrt(squares + 1e-5) * run.in("gamma")(j));
  }
  run.check(1e-3);
}

TEST(Norm, IsFrobenius) {
  OpRun run("norm:b=2,m=3,n=5");
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 5; ++j) run.expected()(b) += std::pow(run.in("X")(b, i, j), 2);
    run.expected()(b) = std::sqrt(run.expected()(b));
  }
  run.check();
}

TEST(Reduce, SumOverOuterAndInnerAxes) {
  OpRun run("reduce:shape=3x4x5,axes=[0,2],kind=sum");
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 5; ++k) run.expected()(j) += run.in("X")(i, j, k);
  run.check();
}

TEST(Reduce, MaxAndMinOfFloatsAndIntegers) {
  for (const char* type : {"f32", "i8", "bf16"}) {
    OpRun most(std::string("reduce:shape=3x4,axes=-1,kind=max,dtype=") + type);
    OpRun least(std::string("reduce:shape=3x4,axes=0,kind=min,dtype=") + type);
    for (int i = 0; i < 3; ++i) most.expected()(i) = -1e9;
    for (int j = 0; j < 4; ++j) least.expected()(j) = 1e9;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j) {
        most.expected()(i) = std::max(most.expected()(i), most.in("X")(i, j));
        least.expected()(j) = std::min(least.expected()(j), least.in("X")(i, j));
      }
    most.check(0);
    least.check(0);
  }
}

TEST(Reduce, MeanOverEverything) {
  OpRun run("reduce:shape=3x1..9,axes=0+1,kind=mean", {{"d1", 4}});
  ASSERT_EQ(run.expected().array.shape, (std::vector<int64_t>{1}));
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) run.expected()(0) += run.in("X")(i, j) / 12;
  run.check();
}

TEST(Elementwise, UnaryFunctions) {
  using Fn = double (*)(double);
  const std::map<std::string, Fn> functions = {
      {"relu", [](double x) { return std::max(x, 0.0); }},
      {"gelu", gelu},
      {"silu", [](double x) { return x * sigmoid(x); }},
      {"sigmoid", sigmoid},
      {"exp", [](double x) { return std::exp(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"abs", [](double x) { return std::abs(x); }},
      {"neg", [](double x) { return -x; }},
      {"copy", [](double x) { return x; }},
  };
  for (const auto& [name, fn] : functions) {
    SCOPED_TRACE(name);
    OpRun run("elementwise:shape=4x5,fn=" + name);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 5; ++j) run.expected()(i, j) = fn(run.in("X")(i, j));
    run.check();
  }
  for (const char* name : {"sqrt", "rsqrt", "log"}) {  // need positive numbers
    SCOPED_TRACE(name);
    OpRun run(std::string("elementwise:shape=9,fn=") + name);
    for (int i = 0; i < 9; ++i) {
      double x = run.in("X")(i) = 0.125 * (i + 1);
      run.expected()(i) = *name == 'l'   ? std::log(x)
                          : *name == 's' ? std::sqrt(x)
                                         : 1 / std::sqrt(x);
    }
    run.check();
  }
}

TEST(Elementwise, BinaryFunctions) {
  using Fn = double (*)(double, double);
  const std::map<std::string, Fn> functions = {
      {"add", [](double x, double z) { return x + z; }},
      {"sub", [](double x, double z) { return x - z; }},
      {"mul", [](double x, double z) { return x * z; }},
      {"div", [](double x, double z) { return x / z; }},
      {"max", [](double x, double z) { return std::max(x, z); }},
      {"min", [](double x, double z) { return std::min(x, z); }},
  };
  for (const auto& [name, fn] : functions) {
    SCOPED_TRACE(name);
    OpRun run("elementwise:shape=4x5,fn=" + name);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 5; ++j) run.expected()(i, j) = fn(run.in("X")(i, j), run.in("Z")(i, j));
    run.check();
  }
}

// Vectors of the oracle lie along n, where the elements of the weight are k apart.
TEST(Matmul, WeightsWhoseColumnsLieApart) {
  for (const auto [m, n, k] :
       {std::array{3, 21, 10}, std::array{1, 8, 1}, std::array{40, 13, 33}}) {
    for (const int batch : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, {}", m, n, k, batch));
      OpRun run(fmt::format("matmul:m={},n={},k={},batch={},trans_b=true", m, n, k, batch));
      const auto at = [&](const View& array, int b, int i, int j) -> double& {
        return batch > 1 ? array(b, i, j) : array(i, j);
      };
      for (int b = 0; b < batch; ++b) {
        for (int i = 0; i < m; ++i) {
          for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int c = 0; c < k; ++c) sum += at(run.in("A"), b, i, c) * at(run.in("B"), b, j, c);
            at(run.expected(), b, i, j) = sum;
          }
        }
      }
      run.check();
    }
  }
}

TEST(GroupedMatmul, MultipliesEachBlockByTheWeightOfItsGroup) {
  for (const char* order : {"", ",trans_b=true"}) {
    OpRun run(std::string("grouped_matmul:groups=3,blocks=4,rows=2,n=3,k=5") + order);
    const int given[] = {2, 0, 7, -1}, groups[] = {2, 0, 2, 0};
    for (int b = 0; b < 4; ++b) {
      run.in("G")(b) = given[b];
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 3; ++j) {
          double sum = 0;
          for (int k = 0; k < 5; ++k) {
            const double w = *order ? run.in("B")(groups[b], j, k) : run.in("B")(groups[b], k, j);
            sum += run.in("A")(b, i, k) * w;
          }
          run.expected()(b, i, j) = sum;
        }
      }
    }
    run.check();
  }
}

TEST(GatedMlp, MultipliesByTheGate) {
  for (const char* act : {"silu", "gelu", "relu"}) {
    SCOPED_TRACE(act);
    OpRun run(std::string("gated_mlp:m=3,n=4,k=5,trans_b=true,act=") + act);
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j) {
        double gate = 0, up = 0;
        for (int k = 0; k < 5; ++k) {
          gate += run.in("A")(i, k) * run.in("G")(j, k);
          up += run.in("A")(i, k) * run.in("U")(j, k);
        }
        const std::string name = act;
        const double open = name == "silu"   ? gate * sigmoid(gate)
                            : name == "gelu" ? gelu(gate)
                                             : std::max(gate, 0.0);
        run.expected()(i, j) = open * up;
      }
    run.check();
  }
  OpRun rounded("gated_mlp:m=2..8,n=3,k=20,dtype=bf16,act=copy", {{"m", 3}});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      double gate = 0, up = 0;
      for (int k = 0; k < 20; ++k) {
        gate += rounded.in("A")(i, k) * rounded.in("G")(k, j);
        up += rounded.in("A")(i, k) * rounded.in("U")(k, j);
      }
      rounded.expected()(i, j) = gate * up;
    }
  rounded.check(1e-2);
}

TEST(Gather, ClampsIndices) {
  OpRun run("gather:rows=6,cols=3,index=4,dtype=f16");
  const int indices[] = {5, -3, 2, 100}, rows[] = {5, 0, 2, 5};
  for (int i = 0; i < 4; ++i) {
    run.in("I")(i) = indices[i];
    for (int j = 0; j < 3; ++j) run.expected()(i, j) = run.in("X")(rows[i], j);
  }
  run.check(0);
}

}  // namespace
}  // namespace tilewright
