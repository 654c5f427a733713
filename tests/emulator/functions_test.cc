// Each function of the prelude under emulation, beside what it means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "emulator/counters.h"
#include "runtime/tensor/element.h"
#include "tests/kernels/cuda_kernels.h"

namespace tilewright {
namespace {

using testing::ElementsAre;
using LaunchBuffer = EmulatedLaunch::Buffer;

// Runs "kernel(TW_IN(T) A, TW_OUT(U) C)" with this body in one block; `c` says how long C is.
template <class T, class U>
void run(const std::string& types, const std::string& body, std::vector<T> a, std::vector<U>& c,
         int threads, int64_t shared_bytes = 1024, int compute_capability = 0) {
  std::string text = "extern \"C\" __global__ void kernel(" + types +
                     ") {\nconst int t = threadIdx.x;\n" + body + "\n}\n";
  EmulatedLaunch launch{
      "kernel", {1, 1, 1}, {threads, 1, 1}, shared_bytes, {LaunchBuffer{0}, LaunchBuffer{1}}};
  EmulatorOptions options;
  options.compute_capability = compute_capability;
  EmulatorResult result =
      emulate(text, {launch},
              {{"A", a.data(), static_cast<int64_t>(a.size() * sizeof(T))},
               {"C", c.data(), static_cast<int64_t>(c.size() * sizeof(U)), false}},
              options);
  EXPECT_TRUE(result.ok()) << result.fault->to_string();
}

// Values around every corner of the small formats: powers of two, halves between neighbours,
// subnormals, overflows.
std::vector<float> corners() {
  std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, 3.4e38f, 448.0f, 464.0f, 65504.0f};
  for (int exponent = -30; exponent < 20; ++exponent) {
    for (int eighths = 16; eighths < 32; ++eighths) {
      float x = std::ldexp(static_cast<float>(eighths) / 16, exponent);
      values.insert(values.end(), {x, -x, std::nextafter(x, 0.0f), std::nextafter(x, 1e30f)});
    }
  }
  while (values.size() % 64 != 0) values.push_back(1);
  return values;
}

// Devices without conversions of 8-bit floats, and those with.
constexpr int kConversions[] = {80, 90};

TEST(EmulatorFunctions, StoredTypesRoundAsTheElementTypesDo) {
  std::vector<float> values = corners();
  for (ElemType elem : {ElemType::f16, ElemType::bf16, ElemType::f8e4m3, ElemType::f8e5m2}) {
    for (int capability : kConversions) {
      std::vector<float> back(values.size());
      std::string type = test::cuda_type(elem);
      run("TW_IN(float) A, TW_OUT(float) C",
          "for (int i = t; i < " + std::to_string(values.size()) + "; i += 64) {\n" + type +
              " x = A[i]; C[i] = x; }",
          values, back, 64, 1024, capability);
      for (size_t i = 0; i < values.size(); ++i) {
        double want = decode_element(elem, encode_element(elem, static_cast<double>(values[i])));
        EXPECT_EQ(static_cast<double>(back[i]), want)
            << type << " of " << values[i] << " on " << capability;
      }
    }
  }
}

TEST(EmulatorFunctions, CodesOfEightBitsHaveTheValuesOfTheFormats) {
  for (ElemType elem : {ElemType::f8e4m3, ElemType::f8e5m2}) {
    for (int capability : kConversions) {
      std::vector<uint8_t> codes(256);
      for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i);
      std::vector<float> values(256);
      run("TW_IN(" + test::cuda_type(elem) + ") A, TW_OUT(float) C",
          "for (int i = t; i < 256; i += 32) C[i] = A[i];", codes, values, 32, 1024, capability);
      for (size_t i = 0; i < 256; ++i) {
        double want = decode_element(elem, i);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(values[i])) << i << " on " << capability;
        } else {
          EXPECT_EQ(static_cast<double>(values[i]), want) << i << " on " << capability;
        }
      }
    }
  }
}

TEST(EmulatorFunctions, PairsOfEightBitCodesConvertEachByItself) {
  std::vector<uint16_t> pairs(65536);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<uint16_t>(i);
  std::vector<uint32_t> halves(pairs.size());
  run("TW_IN(unsigned short) A, TW_OUT(unsigned) C",
      "for (int i = t; i < 65536; i += 64) C[i] = tw_cvt_f16x2_e4m3x2(A[i]);", pairs, halves, 64);
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (int half : {0, 1}) {
      const double want = decode_element(ElemType::f8e4m3, i >> 8 * half & 255);
      const double got = decode_element(ElemType::f16, halves[i] >> 16 * half & 0xffff);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << i;
      } else {
        ASSERT_EQ(got, want) << i;
        ASSERT_EQ(std::signbit(got), std::signbit(want)) << i;
      }
    }
  }
}

// The first operand becomes the upper byte; what is beyond the format becomes its greatest number.
TEST(EmulatorFunctions, PairsOfFloatsBecomePairsOfCodes) {
  std::vector<float> values = corners();
  values.push_back(NAN);
  const size_t count = values.size();
  const std::pair<ElemType, std::string> types[] = {{ElemType::f8e4m3, "e4m3"},
                                                    {ElemType::f8e5m2, "e5m2"}};
  for (const auto& [elem, name] : types) {
    std::vector<uint16_t> pairs(count);
    const std::string n = std::to_string(count);
    run("TW_IN(float) A, TW_OUT(unsigned short) C",
        "for (int i = t; i < " + n + "; i += 64) C[i] = tw_cvt_" + name +
            "x2(A[i], A[(i * 7 + 3) % " + n + "]);",
        values, pairs, 64);
    for (size_t i = 0; i < count; ++i) {
      const auto upper = static_cast<double>(values[i]);
      const auto lower = static_cast<double>(values[(i * 7 + 3) % count]);
      ASSERT_EQ(pairs[i] >> 8, encode_element(elem, upper)) << name << " of " << upper;
      ASSERT_EQ(pairs[i] & 255u, encode_element(elem, lower)) << name << " of " << lower;
    }
  }
}

TEST(EmulatorFunctions, Tf32KeepsTenBitsOfTheMantissa) {
  std::vector<float> a = {1.0f + 0x1p-10f, 1.0f + 0x1p-11f, 1.0f + 0x1p-12f, -1.0f - 0x1p-11f};
  std::vector<float> c(4);
  run("TW_IN(float) A, TW_OUT(float) C", "C[t] = tw_float(tw_tf32(A[t]));", a, c, 4);
  EXPECT_THAT(c, ElementsAre(1.0f + 0x1p-10f, 1.0f + 0x1p-10f, 1.0f, -1.0f - 0x1p-10f));
}

TEST(EmulatorFunctions, CopiesFillWithZerosBehindTheEnd) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6, 7};
  std::vector<float> c(8, -1);
  run("TW_IN(float) A, TW_OUT(float) C",
      "TW_SHARED(float, s, 0, 8);\n"
      "tw_cp_async_zfill<16>(s + 4 * t, A + 4 * t, t == 0 ? 16 : 12);\n"
      "tw_cp_async_commit(); tw_cp_async_wait<0>(); __syncthreads();\n"
      "tw_st(C + 4 * t, tw_ld<4>(s + 4 * t));",
      a, c, 2);
  EXPECT_THAT(c, ElementsAre(1, 2, 3, 4, 5, 6, 7, 0));
}

TEST(EmulatorFunctions, ShufflesStayInTheirGroups) {
  std::vector<int> a(32), c(32 * 4);
  for (int i = 0; i < 32; ++i) a[static_cast<size_t>(i)] = i;
  run("TW_IN(int) A, TW_OUT(int) C",
      "C[t] = __shfl_down_sync(0xffffffffu, A[t], 3, 8);\n"
      "C[t + 32] = __shfl_up_sync(0xffffffffu, A[t], 3, 8);\n"
      "C[t + 64] = __shfl_sync(0xffffffffu, A[t], 9, 8);\n"
      "C[t + 96] = __shfl_xor_sync(0xffffffffu, A[t], 5);",
      a, c, 32);
  for (int i = 0; i < 32; ++i) {
    int group = i / 8 * 8, within = i % 8;
    auto at = static_cast<size_t>(i);
    EXPECT_EQ(c[at], within + 3 < 8 ? i + 3 : i);
    EXPECT_EQ(c[at + 32], within - 3 >= 0 ? i - 3 : i);
    EXPECT_EQ(c[at + 64], group + 1);
    EXPECT_EQ(c[at + 96], i ^ 5);
  }
}

TEST(EmulatorFunctions, Dp4aTakesBytesWithAndWithoutSigns) {
  std::vector<unsigned> a = {0xff020304u, 0x01fe03fcu};
  std::vector<int> c(3);
  run("TW_IN(unsigned) A, TW_OUT(int) C",
      "const unsigned x = A[0], y = A[1];\n"
      "C[0] = tw_dp4a((int)x, (int)y, 10);\n"
      "C[1] = tw_dp4a(x, (int)y, 10);\n"
      "C[2] = (int)tw_dp4a(x, y, 10u);",
      a, c, 1);
  EXPECT_THAT(
      c, ElementsAre(-1 * 1 + 2 * -2 + 3 * 3 + 4 * -4 + 10, 255 * 1 + 2 * -2 + 3 * 3 + 4 * -4 + 10,
                     255 * 1 + 2 * 254 + 3 * 3 + 4 * 252 + 10));
}

TEST(EmulatorFunctions, TransposedLoadsGiveColumns) {
  std::vector<uint16_t> a(64), c(64);
  for (size_t i = 0; i < 64; ++i) a[i] = static_cast<uint16_t>(i);
  run("TW_IN(unsigned short) A, TW_OUT(unsigned short) C",
      "TW_SHARED(unsigned short, s, 0, 64);\n"
      "tw_st(s + 2 * t, tw_ld<2>(A + 2 * t)); __syncwarp();\n"
      "unsigned r[1]; tw_ldmatrix_x1_trans(r, s + t % 8 * 8);\n"
      "C[2 * t] = (unsigned short)r[0]; C[2 * t + 1] = (unsigned short)(r[0] >> 16);",
      a, c, 32);
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(c[i], i % 8 * 8 + i / 8) << i;
}

TEST(EmulatorFunctions, MatricesGoBackToWhereLoadsFindThem) {
  std::vector<uint16_t> a(128), c(256);
  for (size_t i = 0; i < 128; ++i) a[i] = static_cast<uint16_t>(i);
  run("TW_IN(unsigned short) A, TW_OUT(unsigned short) C",
      "TW_SHARED(unsigned short, s, 0, 128);\n"
      "TW_SHARED(unsigned short, u, 256, 256);\n"
      "tw_st(s + 4 * t, tw_ld<4>(A + 4 * t)); __syncwarp();\n"
      "unsigned r[2]; tw_ldmatrix_x2(r, s + t % 16 * 8);\n"
      "tw_stmatrix_x2(u + t % 16 * 8, r);\n"
      "tw_stmatrix_x2_trans(u + (128 + t % 16 * 8), r); __syncwarp();\n"
      "tw_st(C + 8 * t, tw_ld<8>(u + 8 * t));",
      a, c, 32);
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(c[i], i) << i;
    EXPECT_EQ(c[128 + i], i / 64 * 64 + i % 8 * 8 + i % 64 / 8) << i;
  }
}

TEST(EmulatorFunctions, ASwizzleSpreadsTheSamePlaceOfRowsOverTheBanks) {
  std::vector<int> a = {0}, c(64);
  run("TW_IN(int) A, TW_OUT(int) C",
      "for (int row = 0; row < 8; ++row) C[row * 8 + t] = tw_swizzle<3, 3, 3>(row * 64 + t * 8);",
      a, c, 8);
  for (int row = 0; row < 8; ++row) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(c[static_cast<size_t>(row * 8 + chunk)], row * 64 + (chunk ^ row) * 8);
    }
  }
}

// Lanes at these distances, each with so many bytes.
std::vector<emulator::LaneAccess> lanes(int64_t stride, int bytes, int64_t base = 0) {
  std::vector<emulator::LaneAccess> list;
  for (int64_t i = 0; i < 32; ++i) list.push_back({base + i * stride, bytes});
  return list;
}

TEST(EmulatorCounts, PassesThroughTheBanks) {
  EXPECT_EQ(emulator::bank_passes(lanes(4, 4)), 1);
  EXPECT_EQ(emulator::bank_passes(lanes(8, 4)), 2);
  EXPECT_EQ(emulator::bank_passes(lanes(128, 4)), 32);
  EXPECT_EQ(emulator::bank_passes(lanes(132, 4)), 1);
  EXPECT_EQ(emulator::bank_passes(lanes(0, 4)), 1);
  EXPECT_EQ(emulator::bank_passes(lanes(2, 2)), 1);
  EXPECT_EQ(emulator::bank_passes(lanes(16, 16)), 4);
  EXPECT_EQ(emulator::ideal_passes(lanes(16, 16)), 4);
  EXPECT_EQ(emulator::bank_passes(lanes(64, 16)), 16);
  EXPECT_EQ(emulator::ideal_passes(lanes(128, 4)), 1);
}

TEST(EmulatorCounts, SectorsOfGlobalMemory) {
  EXPECT_EQ(emulator::sectors(lanes(4, 4)), 4);
  EXPECT_EQ(emulator::sectors(lanes(4, 4, 16)), 5);
  EXPECT_EQ(emulator::sectors(lanes(128, 4)), 32);
  EXPECT_EQ(emulator::sectors(lanes(16, 16)), 16);
  EXPECT_EQ(emulator::sectors(lanes(0, 4)), 1);
}

}  // namespace
}  // namespace tilewright
