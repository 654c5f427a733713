#include "tests/tuner/fuzz/fuzz_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/ops/spec.h"

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCases = 3200;  // unless TILEWRIGHT_FUZZ_CASES is set
constexpr uint64_t kShards = 8;

class FuzzFormats : public ::testing::TestWithParam<uint64_t> {};

TEST_P(FuzzFormats, EveryFormAndScheduleKeepsTheMeaning) {
  uint64_t sketched = 0, steps = 0, cases = total_cases(kCases) / kShards;
  for (uint64_t i = 0; i < cases; ++i) {
    FormatCase c = fuzz_format(first_seed() + GetParam() + i * kShards);
    sketched += c.config.empty() ? 0 : 1;
    steps += c.steps.size();
    EXPECT_TRUE(c.failure.empty()) << describe(c);
  }
  // Cases that the sketch refuses, or cases without rewrites, would test little.
  EXPECT_GE(sketched, cases / 2);
  EXPECT_GE(steps, cases / 2);
}

INSTANTIATE_TEST_SUITE_P(Shards, FuzzFormats, ::testing::Range<uint64_t>(0, kShards));

TEST(FuzzFormatsItself, SameSeedSameCase) {
  EXPECT_EQ(describe(fuzz_format(42)), describe(fuzz_format(42)));
}

// A few hundred specs contain every value of every key.
TEST(FuzzFormatsItself, DrawsEveryForm) {
  std::string all;
  Draw draw(1);
  for (int i = 0; i < 600; ++i) all += random_format_spec(draw) + ",\n";
  for (const char* type :
       {"i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "nf4", "f8e4m3", "f8e5m2", "f4e2m1"}) {
    EXPECT_THAT(all, HasSubstr(std::string("w.dtype=") + type + ","));
  }
  for (const char* text :
       {"w.scale=f32",  "w.scale=f16",  "w.scale=bf16", "w.scale=e8m0", "w.scale=f8e4m3",
        "w.scale=none", "w.zero=u8",    "w.zero=u4",    "w.zero=u2",    "w.zero=u1",
        "w.zero=f16",   "w.group=-1",   "w.sparse=2:4", "w.sparse=1:2", "w.vector=16",
        "w.vector=1,",  "trans_b=true", "batch=2",      "layout=nchw",  "groups=2",
        "dtype=i8",     "dtype=u8",     "dtype=bf16",   "acc=f32",      "conv1d",
        "depthwise",    "transpose",    "epilogue"}) {
    EXPECT_THAT(all, HasSubstr(text));
  }
}

// A wrongly packed weight is found: the step says that 1 of 4 rows is kept, but 2 are.
TEST(FuzzFormatsItself, FindsAMutant) {
  FormatCase c;
  c.spec = "matmul:m=2,n=4,k=8,w.sparse=2:4";
  c.target = Target::parse("generic");
  c.steps = {{"compress_nm", R"({"block":"C","buffer":"B","keep":1,"of":4,"vector":1})", {}}};
  EXPECT_THAT(check_format(c).value_or("refused"), HasSubstr("C[flat 0] is"));
  c.steps[0].arguments = R"({"block":"C","buffer":"B","keep":2,"of":4,"vector":1})";
  EXPECT_EQ(check_format(c), "");
  c.steps[0].arguments = R"({"block":"C","buffer":"A","keep":2,"of":4,"vector":1})";
  EXPECT_EQ(check_format(c), std::nullopt);
}

}  // namespace
}  // namespace tilewright::test
