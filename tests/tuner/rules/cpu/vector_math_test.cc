// The vector functions of generated code, compared with the C library in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/array.h"
#include "schedule/schedule.h"

namespace tilewright {
namespace {

float from_bits(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}

// Distance in units of the last place of the exact value in f32.
double ulps(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e30;
  auto nearest = static_cast<float>(want);
  if (got == nearest) return 0;
  if (std::isinf(nearest) || std::isinf(got)) return 1e30;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::abs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

struct VectorMathCase {
  const char* fn;
  double (*exact)(double);
  double most;  // ulps
};

class VectorMath : public testing::TestWithParam<VectorMathCase> {};

void expect_close(const VectorMathCase& c, const Target& target, int lanes) {
  constexpr int64_t kCount = 1 << 16;
  Workload w = make_workload(parse_spec("expr:expr=Y[i] = " + std::string(c.fn) +
                                        "(X[i]),dims.i=" + std::to_string(kCount)));
  Schedule s(lower(w));
  Block y = s.blocks().back();
  s.vectorize(s.split(s.loops(y)[0], {-1, lanes})[1]);
  KernelSource source = generate_c(s.module(), target);
  ASSERT_NE(source.code.find(std::string("tw_") + c.fn + "_f32x" + std::to_string(lanes)),
            std::string::npos);
  Kernel kernel(compile(source).object, source.description);
  HostArray x("X", ElemType::f32, {kCount}), out("Y", ElemType::f32, {kCount});
  auto* in = static_cast<float*>(x.data());
  // Every 2^16th float: all exponents, both signs, subnormals, infinities and NaNs.
  for (int64_t i = 0; i < kCount; ++i) {
    in[i] = from_bits(static_cast<uint32_t>(i) << 16 | static_cast<uint32_t>(i * 40503 % 65536));
  }
  in[0] = 0.0f, in[1] = -0.0f, in[2] = INFINITY, in[3] = -INFINITY, in[4] = 1.0f;
  void* args[] = {x.data(), out.data()};
  kernel.launch(args, nullptr, serial_context());
  auto* got = static_cast<float*>(out.data());
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_LE(ulps(got[i], c.exact(in[i])), c.most) << c.fn << "(" << in[i] << ") gave " << got[i];
  }
}

TEST_P(VectorMath, IsCloseOverAllFloats) {
  Target native = Target::parse("native");
  if (native.f32_lanes() > 1) expect_close(GetParam(), native, native.f32_lanes());
}

// With helpers of plain C, which any processor runs.
TEST_P(VectorMath, IsCloseInPlainC) {
  Target generic = Target::parse("generic");
  expect_close(GetParam(), generic, generic.f32_lanes());
}

INSTANTIATE_TEST_SUITE_P(Functions, VectorMath,
                         testing::Values(VectorMathCase{"exp", std::exp, 3},
                                         VectorMathCase{"log", std::log, 4},
                                         VectorMathCase{"tanh", std::tanh, 6},
                                         VectorMathCase{"erf", std::erf, 6}),
                         [](const auto& info) { return info.param.fn; });

}  // namespace
}  // namespace tilewright
