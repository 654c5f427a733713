#include "runtime/worker/message.h"

#include <gtest/gtest.h>

namespace tilewright {
namespace {

TEST(Message, ArrivesInPieces) {
  std::string stream = frame_message("{\"a\":1}") + frame_message("") + frame_message("x");
  MessageReader reader;
  std::vector<std::string> got;
  for (char byte : stream) {
    reader.feed(std::string(1, byte));
    while (auto message = reader.next()) got.push_back(*message);
  }
  EXPECT_EQ(got, (std::vector<std::string>{"{\"a\":1}", "", "x"}));
  EXPECT_FALSE(reader.malformed());
  EXPECT_EQ(reader.rest(), "");
}

TEST(Message, LengthComesLowestByteFirst) {
  EXPECT_EQ(frame_message(std::string(258, 'x')).substr(0, 4), std::string("\x02\x01\0\0", 4));
}

TEST(Message, TextInsteadOfALengthIsMalformed) {
  MessageReader reader;
  reader.feed("hello world");
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_TRUE(reader.malformed());
  reader.clear();
  reader.feed(frame_message("good"));
  EXPECT_EQ(reader.next(), "good");
}

}  // namespace
}  // namespace tilewright
