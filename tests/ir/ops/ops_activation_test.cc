// Rows that a matmul quantizes before the product, compared with plain loops in f32.
#include <cmath>

#include "tests/ir/ops/ops_harness.h"

namespace tilewright {
namespace {

// A row as the workload defines it, in f32 arithmetic.
struct Row {
  float scale = 0;
  std::vector<double> codes;
};

Row quantized(const std::vector<double>& row) {
  float top = 0;
  for (double a : row) top = std::max(top, std::abs(static_cast<float>(a)));
  Row result;
  result.scale = top / 127.0F;
  for (double a : row) {
    float code = std::nearbyint(static_cast<float>(a) / result.scale);
    result.codes.push_back(result.scale > 0 ? std::min(std::max(code, -127.0F), 127.0F) : 0.0F);
  }
  return result;
}

void expect_product(OpRun& run, int m, int n, int k, int group, bool shifted) {
  for (int i = 0; i < m; ++i) {
    std::vector<double> row;
    for (int r = 0; r < k; ++r) row.push_back(run.in("A")(i, r));
    Row a = quantized(row);
    for (int j = 0; j < n; ++j) {
      for (int r = 0; r < k; ++r) {
        double w = run.in("B")(r, j);
        if (shifted) w -= run.in("B.zero")(r / group, j);
        run.expected()(i, j) +=
            a.codes[static_cast<size_t>(r)] * w * run.in("B.scale")(r / group, j);
      }
      run.expected()(i, j) *= a.scale;
    }
  }
  run.check();
}

TEST(QuantizedRows, BesideEveryIntegerWeight) {
  for (const char* type : {"i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1"}) {
    SCOPED_TRACE(type);
    OpRun run(std::string("matmul:m=3,n=4,k=22,w.group=8,a.dtype=i8,w.dtype=") + type);
    expect_product(run, 3, 4, 22, 8, false);
  }
}

TEST(QuantizedRows, BesideZeroPoints) {
  OpRun run("matmul:m=3,n=4,k=12,a.dtype=i8,w.dtype=u4,w.group=6,w.zero=u4,w.scale=f16");
  expect_product(run, 3, 4, 12, 6, true);
}

TEST(QuantizedRows, OfNarrowFloats) {
  for (const char* type : {"bf16", "f16"}) {
    SCOPED_TRACE(type);
    OpRun run(std::string("matmul:m=3,n=4,k=12,a.dtype=i8,w.dtype=i4,out=f32,dtype=") + type);
    expect_product(run, 3, 4, 12, 12, false);
  }
}

TEST(QuantizedRows, RowsOfZerosAndOfNumbersTooSmallForAScaleAreZero) {
  OpRun run("matmul:m=3,n=2,k=8,a.dtype=i8,w.dtype=i8");
  for (int r = 0; r < 8; ++r) {
    run.in("A")(0, r) = 0;
    run.in("A")(1, r) = 0x1p-149;
  }
  expect_product(run, 3, 2, 8, 8, false);
  EXPECT_EQ(run.oracle().at(0).value, 0);
  EXPECT_EQ(run.oracle().at(2).value, 0);
  EXPECT_NE(run.oracle().at(4).value, 0);
}

// Quotients are formed and rounded in f32. The second element is next to a tie: its quotient is a
// tie in f32, but not in f64.
TEST(QuantizedRows, TiesAreDecidedInF32) {
  OpRun run("matmul:m=1,n=1,k=2,a.dtype=i8,w.dtype=i8,w.scale=none");
  const float top = 1.1F, scale = top / 127.0F;
  float near = 0;
  for (int c = 0; c < 100 && near == 0; ++c) {
    float tie = static_cast<float>(c) + 0.5F, a = tie * scale;
    for (float x : {std::nextafter(a, 0.0F), a, std::nextafter(a, 2.0F)}) {
      double quotient = static_cast<double>(x) / static_cast<double>(scale);
      bool apart = std::nearbyint(quotient) != std::nearbyint(tie);
      if (x / scale == tie && apart) near = x;
    }
  }
  ASSERT_NE(near, 0);
  run.in("A")(0, 0) = top;
  run.in("A")(0, 1) = near;
  run.in("B")(0, 0) = 0;
  run.in("B")(1, 0) = 1;
  Oracle::Value value = run.oracle().at(0);
  EXPECT_DOUBLE_EQ(value.value / scale, std::nearbyint(near / scale));
  EXPECT_LT(value.error, 1e-6);
  NdArrays arrays = run.arrays();
  interpret(lower(run.workload()), arrays, {});
  EXPECT_NEAR(arrays.at("C").data[0], value.value, value.error);
}

TEST(QuantizedRows, BatchesAndTransposedOperands) {
  OpRun run("matmul:m=2,n=3,k=8,batch=2,trans_a=true,trans_b=true,a.dtype=i8,w.dtype=i8");
  for (int b = 0; b < 2; ++b) {
    for (int i = 0; i < 2; ++i) {
      std::vector<double> row;
      for (int r = 0; r < 8; ++r) row.push_back(run.in("A")(b, r, i));
      Row a = quantized(row);
      for (int j = 0; j < 3; ++j) {
        for (int r = 0; r < 8; ++r) {
          run.expected()(b, i, j) += a.codes[static_cast<size_t>(r)] * run.in("B")(b, j, r) *
                                     run.in("B.scale")(b, 0, j) * a.scale;
        }
      }
    }
  }
  run.check();
}

TEST(QuantizedRows, QuantizationIsNoWorkAndScalingASumIs) {
  EXPECT_EQ(make_workload(parse_spec("matmul:m=2,n=3,k=8,a.dtype=i8,w.dtype=i8")).flops,
            make_workload(parse_spec("matmul:m=2,n=3,k=8")).flops + 2 * 3);
}

// Operands of fewer than 8 bits are multiplied exactly, whatever the weight's storage type.
TEST(NarrowRows, AreMultipliedAsIntegers) {
  for (const char* spec : {"dtype=i4", "dtype=u4", "dtype=i1", "dtype=u1", "dtype=i4,w.dtype=i2",
                           "dtype=u4,w.dtype=i4", "dtype=i4,trans_a=true"}) {
    SCOPED_TRACE(spec);
    OpRun run(std::string("matmul:m=3,n=4,k=10,") + spec);
    const bool transposed = std::string(spec).find("trans_a") != std::string::npos;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) {
        for (int r = 0; r < 10; ++r) {
          double a = transposed ? run.in("A")(r, i) : run.in("A")(i, r);
          run.expected()(i, j) += a * run.in("B")(r, j);
        }
      }
    }
    run.check(0);
  }
}

TEST(NarrowRows, AreNoWorkAndStandForTheirWeight) {
  const Spec spec = parse_spec("matmul:m=2,n=3,k=8,dtype=i4");
  EXPECT_EQ(make_workload(spec).flops, 2 * 2 * 3 * 8);
  EXPECT_EQ(make_workload(spec).inputs[0].buffer->elem, ElemType::i4);
  EXPECT_EQ(make_workload(spec).inputs[1].buffer->elem, ElemType::i4);
  EXPECT_EQ(make_workload(spec).output()->elem, ElemType::i32);
  EXPECT_EQ(canonical_text(spec),
            canonical_text(parse_spec("matmul:m=2,n=3,k=8,dtype=i4,w.dtype=i4")));
}

}  // namespace
}  // namespace tilewright
