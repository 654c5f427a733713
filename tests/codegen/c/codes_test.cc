// Codes of 8-bit floats as bf16, for every code. The text is plain vector C, so it runs on
// processors without the permutations that it is written for.
#include "codegen/c/c_codes.h"

#include <gtest/gtest.h>

#include "ir/bits.h"
#include "kernel/target.h"
#include "tests/codegen/compiled_text.h"

namespace tilewright {
namespace {

// The bf16 of 64 codes: those of the lower bytes of 32 words, then those of the upper ones.
using Decode = void(const uint8_t* codes, uint16_t* low, uint16_t* high);

class CodesOfFloatBytes : public testing::TestWithParam<ElemType> {};

TEST_P(CodesOfFloatBytes, AreTheElementsThatTheyStandFor) {
  const Target target = Target::parse("avx512+avx512vbmi");
  Prelude prelude(target);
  const std::string name = prelude.helper("codes_bf16", Type(GetParam(), 32));
  const std::string code =
      prelude.text() + "void decode(const uint8_t* p, uint16_t* low, uint16_t* high) {\n  " +
      prelude.memory_type(ElemType::bf16, 32) + " a = " + name + "(p, 0), b = " + name +
      "(p, 8);\n  __builtin_memcpy(low, &a, 64);\n  __builtin_memcpy(high, &b, 64);\n}\n";
  EXPECT_EQ(code.find("__builtin_ia32"), std::string::npos) << code;

  const test::CompiledText text(code);
  auto* decode = text.function<Decode>("decode");
  ASSERT_NE(decode, nullptr);
  for (int first = 0; first < 256; first += 64) {
    uint8_t codes[64];
    uint16_t words[2][32];
    for (int i = 0; i < 64; ++i) codes[i] = static_cast<uint8_t>(first + i);
    decode(codes, words[0], words[1]);
    for (int i = 0; i < 64; ++i) {
      const double value = from_bits(GetParam(), codes[i]);
      // The signs of NaNs count as well, which values do not show.
      const uint64_t sign = codes[i] & 0x80u;
      const uint64_t want =
          to_bits(ElemType::bf16, round_to(ElemType::bf16, from_bits(GetParam(), codes[i] ^ sign)));
      EXPECT_EQ(words[i % 2][i / 2], want | sign << 8) << "code " << first + i << ": " << value;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CodesOfFloatBytes,
                         testing::Values(ElemType::f8e4m3, ElemType::f8e5m2));

}  // namespace
}  // namespace tilewright
