#include "base/base64.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Base64, FollowsTheTestVectorsOfRfc4648) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
}

TEST(Base64, GivesBackEveryByte) {
  std::string bytes;
  for (int i = 0; i < 257; ++i) {
    bytes += static_cast<char>(i * 7);
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

TEST(Base64, RefusesWhatItWouldNotWrite) {
  for (const char* wrong : {"Z", "Zg=", "Zg", "Z===", "====", "=abc", "ab=c",
                            "ab$=", "Zm9v Zg==", "Zg==Zg==", "Zh==", "Zm9=", "Zm9v\n"}) {
    EXPECT_FALSE(from_base64(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tilewright
