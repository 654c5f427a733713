// Every row of the intrinsic table: its C is checked against the interpreter, on what it computes.
#include "codegen/intrinsics/intrinsics.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/c/c_types.h"
#include "codegen/codegen.h"
#include "kernel/cpu_features.h"
#include "tests/codegen/compiled_text.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

using test::tensorized;

Target with_features_of(const Intrinsic& row) {
  Target t = Target::parse("avx512");
  t.extensions = {row.features.begin(), row.features.end()};
  return t;
}

class EveryIntrinsic : public testing::TestWithParam<const Intrinsic*> {};

TEST_P(EveryIntrinsic, MeansWhatItsLoopsMean) {
  Schedule s = tensorized(*GetParam());
  Target target = with_features_of(*GetParam());
  NdArrays want = test::arrays_of(s.program(), false), got = test::arrays_of(s.program(), true);
  interpret(s.program(), want);
  Program lowered = lower_for_cpu(s.program(), target);
  EXPECT_NE(to_string(lowered).find("dot<"), std::string::npos) << to_string(lowered);
  interpret(lowered, got);
  ASSERT_EQ(want.at("C").data.size(), got.at("C").data.size());
  for (size_t i = 0; i < want.at("C").data.size(); ++i) {
    EXPECT_NEAR(want.at("C").data[i], got.at("C").data[i], 1e-5) << "element " << i;
  }
}

TEST_P(EveryIntrinsic, NeedsItsTarget) {
  Schedule s = tensorized(*GetParam());
  Target generic = Target::parse("generic");
  try {
    lower_for_cpu(s.program(), generic);
    ADD_FAILURE() << "was lowered for a target that lacks it";
  } catch (const LoweringError& e) {
    EXPECT_NE(std::string(e.what()).find("target 'generic' has no intrinsic"), std::string::npos)
        << e.what();
  }
}

std::vector<const Intrinsic*> all_rows() {
  std::vector<const Intrinsic*> rows;
  for (const Intrinsic& row : intrinsics()) rows.push_back(&row);
  return rows;
}

INSTANTIATE_TEST_SUITE_P(All, EveryIntrinsic, testing::ValuesIn(all_rows()), [](const auto& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

// Loops that changed after they were marked are not taken for the intrinsic.
TEST(Intrinsics, LoweringChecksTheLoopsAgain) {
  const Intrinsic& row = *find_intrinsic("avx512.vpdpbusd");
  Schedule s = tensorized(row);
  s.split({"kk"}, {2, 2});
  try {
    lower_for_cpu(s.program(), with_features_of(row));
    ADD_FAILURE() << "was lowered";
  } catch (const LoweringError& e) {
    EXPECT_NE(std::string(e.what()).find("loop 'jj' is marked as intrinsic 'avx512.vpdpbusd': no "
                                         "loop is iterator 'k'"),
              std::string::npos)
        << e.what();
  }
  s.annotate(Loop{"jj"}, "intrinsic", Annotation("avx512.no_such"));
  EXPECT_THROW(lower_for_cpu(s.program(), with_features_of(row)), LoweringError);
}

// A row that is exact for a few values only does not replace one that is exact for all.
TEST(Intrinsics, RowsOfAFewValuesTakeNobodysPlace) {
  Schedule s = tensorized(*find_intrinsic("avxvnni.vpdpbusd"));
  try {
    lower_for_cpu(s.program(), Target::parse("avx2"));
    ADD_FAILURE() << "was lowered to vpmaddubsw";
  } catch (const LoweringError& e) {
    EXPECT_STREQ(e.what(), "target 'avx2' has no intrinsic 'avxvnni.vpdpbusd'");
  }
  const Intrinsic& row = *find_intrinsic("avx2.vpmaddubsw");
  EXPECT_TRUE(row.takes_second(ElemType::i4) && row.takes_second(ElemType::u4));
  EXPECT_FALSE(row.takes_second(ElemType::i8) || row.takes_second(ElemType::u8));
  EXPECT_TRUE(find_intrinsic("avx2.vpmaddwd")->takes_second(ElemType::i16));
  lower_for_cpu(tensorized(row).program(), Target::parse("avx2"));
}

// The kernel tells its compiler and its loader the features that it needs beyond its target.
TEST(Intrinsics, KernelsNameTheirFeatures) {
  const Intrinsic& row = *find_intrinsic("avx512.vpdpbusd");
  KernelSource source = generate_c(tensorized(row).module(), with_features_of(row));
  EXPECT_EQ(source.description.features, std::vector<std::string>{"avx512vnni"});
  EXPECT_EQ(source.flags.back(), "-mavx512vnni");
  EXPECT_EQ(KernelDescription::from_json(source.description.to_json()).features,
            source.description.features);
}

// The least and the largest bytes of either sign, in every pair of terms.
TEST(Intrinsics, WidenedBytesAreExactAtTheirEnds) {
  if (!cpu_features().count("avx2")) GTEST_SKIP() << "no avx2";
  for (std::string name : {"i8_i8", "u8_i8", "i8_u8", "u8_u8"}) {
    SCOPED_TRACE(name);
    const bool a_signed = name[0] == 'i', b_signed = name[3] == 'i';
    const Target target = Target::parse("avx2");
    Prelude prelude(target);
    auto type = [](bool is_signed, int lanes) {
      return Type(is_signed ? ElemType::i8 : ElemType::u8, lanes);
    };
    const Type acc(ElemType::i32, 8);
    const std::string row = prelude.dot(acc, type(a_signed, 2), type(b_signed, 16), false, false),
                      vector = prelude.value_type(acc);
    EXPECT_EQ(row, "tw_avx2_vpmaddwd_" + name);
    const test::CompiledText text(prelude.text() +
                                      "void dot(int* c, const void* a, const void* b)" + "{ " +
                                      vector + " v = {1, 2, 3, 4, 5, 6, 7, 8}; v = " + row +
                                      "(v, a, b); __builtin_memcpy(c, &v, 32); }\n",
                                  "-mavx2");
    auto* dot = text.function<void(int*, const void*, const void*)>("dot");
    ASSERT_NE(dot, nullptr);
    const int bytes[] = {0, 1, 127, 128, 255};
    auto value = [](int byte, bool is_signed) {
      return is_signed ? static_cast<int8_t>(byte) : byte;
    };
    for (int x : bytes) {
      for (int y : bytes) {
        const uint8_t a[] = {static_cast<uint8_t>(x), static_cast<uint8_t>(y)};
        uint8_t b[16];
        for (int i = 0; i < 16; ++i) b[i] = static_cast<uint8_t>(bytes[(i * 3 + i / 5) % 5]);
        int c[8];
        dot(c, a, b);
        for (int j = 0; j < 8; ++j) {
          int want = 1 + j;
          for (int k = 0; k < 2; ++k) want += value(a[k], a_signed) * value(b[2 * j + k], b_signed);
          EXPECT_EQ(c[j], want) << x << ", " << y << " in lane " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
