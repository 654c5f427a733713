// Codes that masks take from words, as floats times a power of two: every place of a word.
#include "codegen/c/c_scaled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/codegen.h"
#include "ir/bits.h"
#include "kernel/cpu_features.h"
#include "tests/codegen/compiled_text.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

constexpr int kLanes = 8, kWord = 32;

using DecodeScaled = void(const uint8_t* words, float* out);

class ScaledCodes : public testing::TestWithParam<ElemType> {};

TEST_P(ScaledCodes, AreTheirValuesTimesAPowerOfTwo) {
  if (!cpu_features().count("avx2")) GTEST_SKIP() << "no avx2";
  const Target target = Target::parse("avx2");
  const Type type(GetParam(), kLanes);
  const int bits = bits_of(GetParam());
  Prelude prelude(target);
  const std::string helper = prelude.helper("scaled_words", type);
  const std::string vector = prelude.value_type(Type(ElemType::f32, kLanes));
  std::string body;
  for (int shift = 0; shift < kWord; shift += bits) {
    body += fmt::format("  {{ {} v = {}(p, {}); __builtin_memcpy(out + {}, &v, sizeof v); }}\n",
                        vector, helper, shift, shift / bits * kLanes);
  }
  const test::CompiledText text(
      prelude.text() + "void decode(const uint8_t* p, float* out) {\n" + body + "}\n", "-mavx2");
  auto* decode = text.function<DecodeScaled>("decode");
  ASSERT_NE(decode, nullptr);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    uint32_t words[kLanes];
    for (uint32_t& w : words) w = static_cast<uint32_t>(random());
    uint8_t bytes[sizeof words];
    std::memcpy(bytes, words, sizeof words);
    std::vector<float> got(static_cast<size_t>(kWord / bits * kLanes));
    decode(bytes, got.data());
    for (int shift = 0; shift < kWord; shift += bits) {
      const std::optional<int> exponent = scaled_exponent(type, shift, target);
      ASSERT_TRUE(exponent);
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint64_t code = words[lane] >> shift & ((1u << bits) - 1);
        EXPECT_EQ(got[static_cast<size_t>(shift / bits * kLanes + lane)],
                  std::ldexp(from_bits(GetParam(), code), *exponent))
            << "code " << code << " at bit " << shift << " of lane " << lane;
      }
    }
  }
}

using enum ElemType;
INSTANTIATE_TEST_SUITE_P(Types, ScaledCodes, testing::Values(u4, u2, u1, i4, i2, i1, f4e2m1),
                         [](const auto& info) { return to_string(info.param); });

// No helper where a permutation has the value of every code, or where values are no whole numbers.
TEST(ScaledCodesOf, NoOtherTypes) {
  EXPECT_FALSE(scaled_exponent(Type(nf4, kLanes), 0, Target::parse("avx2")));
  EXPECT_FALSE(scaled_exponent(Type(i8, kLanes), 0, Target::parse("avx2")));
  EXPECT_FALSE(scaled_exponent(Type(u4, 16), 0, Target::parse("avx512")));
}

std::string c_of(const std::string& spec, int64_t rows) {
  Schedule s(lower(make_workload(parse_spec(spec))));
  s.compute_inline({"B_value"});
  s.prepack("B", IndexMap::parse("(k, j) -> (floordiv(k, 8), j, floormod(k, 8))"));
  Block c = s.block("C");
  std::vector<Loop> loops = s.loops(c);
  std::vector<Loop> i = s.split(loops[0], {-1, rows});
  std::vector<Loop> j = s.split(loops[1], {-1, kLanes});
  std::vector<Loop> k = s.split(loops[2], {-1, 8});
  s.reorder({i[0], j[0], k[0], k[1], i[1], j[1]});
  s.decompose_reduction(c, k[0]);
  s.unroll(k[1]);
  s.unroll(i[1]);
  s.vectorize(j[1]);
  return generate_c(s.module(), Target::parse("avx2")).code;
}

// One row's factor is scaled for all columns; the factors of several rows would be scaled each.
TEST(ScaledCodesOf, OneRowAlone) {
  const std::string spec = "n=16,k=32,w.dtype=u4,w.scale=none,w.zero=none";
  EXPECT_NE(c_of("matmul:m=1," + spec, 1).find("scaled_words"), std::string::npos);
  EXPECT_EQ(c_of("matmul:m=4," + spec, 4).find("scaled_words"), std::string::npos);
}

}  // namespace
}  // namespace tilewright
