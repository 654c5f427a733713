#include "base/utf8.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Utf8, TakesWhatIsValidAndNothingElse) {
  EXPECT_TRUE(is_utf8("Größe → 𝄞"));
  for (const char* wrong :
       {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\x80z"}) {
    EXPECT_FALSE(is_utf8(wrong)) << wrong;
  }
}

TEST(Utf8, ReplacesWhatIsNotText) {
  EXPECT_EQ(to_utf8("a\xff\xc3(é"), "a\xef\xbf\xbd\xef\xbf\xbd(é");
  EXPECT_EQ(to_utf8(std::string("a\0b", 3)), "ab");
}

}  // namespace
}  // namespace tilewright
