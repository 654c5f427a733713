// The vector functions of generated code, compared with the C library in double precision.
#include <gtest/gtest.h>

#include <cfenv>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

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
  double most;           // ulps
  bool flushes = false;  // results below the least normal number may be 0
};

class VectorMath : public testing::TestWithParam<VectorMathCase> {};

// fn(x) of each element of `x`, by a kernel whose vectors have so many lanes.
std::vector<float> computed(const std::string& fn, const std::vector<float>& x,
                            const Target& target, int lanes) {
  const auto count = static_cast<int64_t>(x.size());
  Workload w = make_workload(
      parse_spec("expr:expr=Y[i] = " + fn + "(X[i]),dims.i=" + std::to_string(count)));
  Schedule s(lower(w));
  Block y = s.blocks().back();
  s.vectorize(s.split(s.loops(y)[0], {-1, lanes})[1]);
  KernelSource source = generate_c(s.module(), target);
  EXPECT_NE(source.code.find("tw_" + fn + "_f32x" + std::to_string(lanes)), std::string::npos);
  Kernel kernel(compile(source).object, source.description);
  HostArray in("X", ElemType::f32, {count}), out("Y", ElemType::f32, {count});
  std::memcpy(in.data(), x.data(), x.size() * sizeof(float));
  void* args[] = {in.data(), out.data()};
  std::feclearexcept(FE_ALL_EXCEPT);
  kernel.launch(args, nullptr, serial_context());
  const auto* got = static_cast<const float*>(out.data());
  return {got, got + count};
}

void expect_close(const VectorMathCase& c, const Target& target, int lanes) {
  std::vector<float> in(1 << 16);
  // Every 2^16th float: all exponents, both signs, subnormals, infinities and NaNs.
  for (size_t i = 0; i < in.size(); ++i) {
    in[i] = from_bits(static_cast<uint32_t>(i) << 16 | static_cast<uint32_t>(i * 40503 % 65536));
  }
  in[0] = 0.0f, in[1] = -0.0f, in[2] = INFINITY, in[3] = -INFINITY, in[4] = 1.0f;
  const std::vector<float> got = computed(c.fn, in, target, lanes);
  for (size_t i = 0; i < in.size(); ++i) {
    const bool flushed = c.flushes && got[i] == 0 && std::abs(c.exact(in[i])) < FLT_MIN;
    if (flushed) continue;
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
                         testing::Values(VectorMathCase{"exp", std::exp, 3, true},
                                         VectorMathCase{"log", std::log, 4},
                                         VectorMathCase{"tanh", std::tanh, 6},
                                         VectorMathCase{"erf", std::erf, 6}),
                         [](const auto& info) { return info.param.fn; });

// A masked score is a large negative number, and others are far below the largest. On Intel's processors a result that
// underflows takes 150 cycles.
TEST(VectorExp, OfAMaskedScoreIsZeroWithoutAnUnderflow) {
  std::vector<float> masked(64);
  for (size_t i = 0; i < masked.size(); ++i)
    masked[i] = -87.8f - std::ldexp(1.0f, static_cast<int>(2 * i) - 6);
  masked.back() = -INFINITY;
  for (const char* name : {"native", "generic"}) {
    const Target target = Target::parse(name);
    for (const float y : computed("exp", masked, target, target.f32_lanes())) EXPECT_EQ(y, 0);
    EXPECT_EQ(std::fetestexcept(FE_UNDERFLOW), 0) << name;
  }
}

}  // namespace
}  // namespace tilewright
