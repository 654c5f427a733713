// Messages between the tool and its workers, in pieces.
#include <algorithm>

#include "runtime/worker/message.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  return {frame_message("{\"a\":1}") + frame_message("") + frame_message("x"),
          frame_message(std::string(300, 'x')), "hello world"};
}

}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  std::vector<std::string> whole, pieces;
  MessageReader at_once, in_pieces;
  at_once.feed(text);
  while (auto message = at_once.next()) whole.push_back(*message);
  for (size_t from = 0, count = 1; from < size; from += count, count = 1 + (count * 5 + 3) % 17) {
    in_pieces.feed(text.substr(from, std::min(count, size - from)));
    while (auto message = in_pieces.next()) pieces.push_back(*message);
  }
  fuzz::require(whole == pieces, "messages depend on the pieces in which they come");
  fuzz::require(at_once.malformed() == in_pieces.malformed(),
                "whether a message is malformed depends on the pieces in which it comes");
  return 0;
}
