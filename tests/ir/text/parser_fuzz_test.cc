#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "ir/arith/simplify.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verify.h"
#include "tests/ir/random_program.h"

namespace tilewright {
namespace {

// A text with one edit: something removed, inserted, repeated or changed.
std::string damaged(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {
      "(",        ")",        "]",       "{",  "}",     "-",        "9223372036854775807",
      "1e400f32", "floordiv", "select(", "if", "block", "<-async",  "cast<i8>(",
      "ramp(",    "\"",       "\\",      "//", "\xff",  "thread_x", "18446744073709551616"};
  size_t at = random() % text.size();
  switch (random() % 4) {
    case 0: return text.erase(at, 1 + random() % 8);
    case 1: return text.insert(at, kPieces[random() % kPieces.size()]);
    case 2: return text.insert(at, text.substr(random() % text.size(), random() % 30));
    default: {
      size_t digit = text.find_first_of("0123456789", at);
      text[digit == std::string::npos ? at : digit] = static_cast<char>('0' + random() % 10);
      return text;
    }
  }
}

// A damaged program is either refused or a valid program, which prints, reads back, and passes
// through the verifier and the simplifier.
TEST(ParserFuzz, DamagedProgramsAreRefusedOrWhole) {
  std::mt19937_64 random(1);
  int read = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = damaged(to_string(test::RandomProgram(random()).make()), random);
    Program p;
    try {
      p = parse_program(text);
    } catch (const IrError&) {
      ++refused;
      continue;
    }
    ++read;
    std::string printed = to_string(p);
    ASSERT_NO_THROW(EXPECT_EQ(to_string(parse_program(printed)), printed)) << text;
    ASSERT_NO_THROW(verify(p)) << text;
    ASSERT_NO_THROW(simplify(p)) << text;
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tilewright
