// Weight forms that dot products take after some conversion: 8-bit elements beside bf16, integers
// without scales, groups that need padding, windows of convolutions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "tests/tuner/choices.h"
#include "tests/tuner/kernel_check.h"
#include "tuner/sketch.h"

namespace tilewright {
namespace {

struct WeightFormsCase {
  const char* spec;
  const char* intrinsic;  // on AVX-512
};

void PrintTo(const WeightFormsCase& c, std::ostream* out) { *out << c.spec; }

class WeightForms : public testing::TestWithParam<WeightFormsCase> {};

TEST_P(WeightForms, MeetTheirIntrinsic) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  for (const char* name : {"native", "avx2", "generic"}) {
    Target target = Target::parse(name);
    if (!target.missing_features().empty()) continue;
    SCOPED_TRACE(name);
    Trial first = Trial::first();
    Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
    std::vector<const Intrinsic*> rows = intrinsics_of(target);
    if (std::count(rows.begin(), rows.end(), find_intrinsic(GetParam().intrinsic)) > 0) {
      EXPECT_EQ(choice_of(first, ".intrinsic"), GetParam().intrinsic);
    }
    expect_right(w, s, target);
  }
}

TEST_P(WeightForms, AreRightInRandomSchedules) {
  Workload w = make_workload(parse_spec(GetParam().spec));
  Target target = Target::parse("native");
  int checked = 0;
  for (uint64_t seed = 1; seed < 60 && checked < 4; ++seed) {
    Trial trial = Trial::random(seed);
    try {
      Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, trial);
      SCOPED_TRACE(trial.config());
      expect_right(w, s, target);
      ++checked;
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_EQ(checked, 4);
}

constexpr const char* kBf16 = "avx512.vdpbf16ps";
constexpr const char* kBytes = "avx512.vpdpbusd_lanes";

INSTANTIATE_TEST_SUITE_P(
    OfEightBits, WeightForms,
    testing::Values(
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,out=f32,w.dtype=f8e4m3,w.group=32", kBf16},
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,out=f32,w.dtype=f8e5m2", kBf16},
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,out=f32,w.dtype=i8,w.group=16,w.scale=f16",
                        kBf16},
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,out=f32,w.dtype=u8,w.group=16,w.zero=u8",
                        kBf16},
        WeightFormsCase{
            "matmul:m=5,n=48,k=64,dtype=bf16,out=f32,w.dtype=u8,w.group=32,w.offset=f16", kBf16},
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,a.dtype=i8,w.dtype=u8,w.group=32,"
                        "w.offset=f32",
                        kBytes},
        WeightFormsCase{
            "matmul:m=1,n=48,k=64,dtype=bf16,out=f32,w.dtype=f8e5m2,w.group=16,w.scale=f16", kBf16},
        WeightFormsCase{
            "matmul:m=2,n=80,k=60,dtype=bf16,out=f32,w.dtype=f8e4m3,w.group=22,w.scale=bf16",
            kBf16}));

// 8-bit integers, which vectors widen in one step, meet one row in f32: then they stay bytes.
TEST(WeightsOfBytes, StayBytesForFewRows) {
  Target target = Target::parse("native");
  for (const auto& [m, row] : std::map<int, std::string>{{1, "none"}, {5, kBf16}}) {
    Workload w = make_workload(parse_spec(fmt::format(
        "matmul:m={},n=48,k=64,dtype=bf16,out=f32,w.dtype=i8,w.group=16,w.scale=f16", m)));
    Trial first = Trial::first();
    Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
    const std::string chosen = choice_of(first, ".intrinsic");
    if (chosen == "not asked") GTEST_SKIP() << "no vdpbf16ps";
    EXPECT_EQ(chosen, row);
    expect_right(w, s, target);
  }
}

// Few rows read 8-bit floats as stored; more rows read converted elements.
TEST(WeightsOfFloatBytes, AreDecodedInTheKernelForFewRows) {
  Target target = Target::parse("native");
  std::vector<const Intrinsic*> rows = intrinsics_of(target);
  if (!std::count(rows.begin(), rows.end(), find_intrinsic(kBf16))) GTEST_SKIP() << "no vdpbf16ps";
  const std::map<int, std::string> places = {{1, "kernel"}, {4, "kernel"}, {5, "load"}};
  for (const auto& [m, place] : places) {
    Workload w = make_workload(parse_spec(
        fmt::format("matmul:m={},n=32,k=64,dtype=bf16,out=f32,w.dtype=f8e4m3,w.scale=f16", m)));
    Trial first = Trial::first();
    Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 2}, first);
    EXPECT_EQ(choice_of(first, ".B.decoded"), place) << first.config();
    std::string code = generate_c(s.module(), target).code;
    EXPECT_EQ(code.find("tw_codes_bf16_f8e4m3x32") != std::string::npos, m < 5) << code;
  }
}

INSTANTIATE_TEST_SUITE_P(
    WithoutScales, WeightForms,
    testing::Values(
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,out=f32,w.dtype=i4,w.scale=none", kBf16},
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=bf16,a.dtype=i8,w.dtype=i8,w.scale=none",
                        kBytes},
        WeightFormsCase{"matmul:m=5,n=48,k=64,dtype=i8,w.dtype=i4", kBytes},
        WeightFormsCase{"matmul:m=1,n=48,k=64,dtype=i8,w.dtype=u4,w.zero=u4,w.group=32", kBytes},
        WeightFormsCase{"matmul:m=5,n=48,k=70,dtype=u8,w.dtype=i2", "avx512.vpdpbusd"}));

INSTANTIATE_TEST_SUITE_P(
    PaddedGroups, WeightForms,
    testing::Values(
        WeightFormsCase{"matmul:m=5,n=48,k=100,dtype=bf16,out=f32,w.dtype=u4,w.group=32,w.zero=u4",
                        kBf16},
        WeightFormsCase{"matmul:m=1,n=48,k=95,dtype=bf16,out=f32,w.dtype=i4,w.scale=f16", kBf16},
        WeightFormsCase{
            "matmul:m=5,n=48,k=60,dtype=bf16,out=f32,w.dtype=f4e2m1,w.group=20,w.scale=e8m0",
            kBf16},
        WeightFormsCase{"matmul:m=5,n=48,k=100,dtype=i8,out=f32,w.dtype=u4,w.group=36,w.zero=u4",
                        kBytes},
        WeightFormsCase{"matmul:m=5,n=48,k=65,dtype=bf16,a.dtype=i8,w.dtype=i4,w.group=22", kBytes},
        WeightFormsCase{
            "matmul:m=4,n=32,k=50,batch=3,trans_b=true,dtype=bf16,out=f32,w.dtype=i4,w.group=24",
            kBf16},
        WeightFormsCase{
            "matmul:m=5,n=48,k=65,dtype=bf16,out=f32,w.dtype=i8,w.group=21,epilogue=[bias,relu]",
            kBf16}));

INSTANTIATE_TEST_SUITE_P(
    Windows, WeightForms,
    testing::Values(
        WeightFormsCase{"conv2d:n=1,h=5,w=6,ci=32,co=48,kernel=3,pad=1,dtype=bf16,out=f32,"
                        "w.dtype=i4,w.group=16,w.scale=f16",
                        kBf16},
        WeightFormsCase{"conv2d:n=2,h=5,w=6,ci=32,co=48,kernel=3,stride=2,dtype=i8,out=f32,"
                        "w.dtype=u4,w.group=32,w.zero=u4,w.scale=f32",
                        kBytes},
        WeightFormsCase{"conv1d:n=1,l=9,ci=16,co=32,kernel=9,pad=4,dtype=i8,out=f32,w.dtype=i4,"
                        "w.group=8,w.scale=f16",
                        kBytes},
        WeightFormsCase{"conv1d:n=1,l=9,ci=16,co=32,kernel=3,dtype=i8,out=f32,w.dtype=i8,"
                        "w.scale=f32,epilogue=[bias,relu]",
                        kBytes},
        WeightFormsCase{"conv2d:n=1,h=5,w=6,ci=24,co=48,kernel=3,pad=1,dtype=bf16,out=f32,"
                        "w.dtype=f8e4m3",
                        kBf16}));

}  // namespace
}  // namespace tilewright
