#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <cstring>

namespace tilewright::fuzz {
namespace {

// SplitMix64, as in schedule/trial.h: the targets of parsers need no schedules.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& inputs, Rng& random)
      : inputs_(inputs), random_(random), text_(inputs[below(inputs.size())]) {}

  std::string run() {
    // Few edits keep most of the structure; many edits reach the parser's error recovery.
    for (size_t left = size_t{1} << below(4); left > 0; --left) edit();
    return std::move(text_);
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_.below(n); }
  size_t place() { return below(text_.size()); }
  char any_byte() { return static_cast<char>(random_.next()); }
  // Mostly short.
  size_t length() { return 1 + below(size_t{1} << below(7)); }

  void edit() {
    if (text_.empty()) return insert_bytes();
    switch (below(12)) {
      case 0: text_[place()] ^= static_cast<char>(1 << below(8)); return;
      case 1: text_[place()] = any_byte(); return;
      case 2: text_.erase(place(), length()); return;
      case 3: return insert_bytes();
      case 4: return repeat();
      case 5: return splice();
      case 6: return change_digit();
      case 7: return replace_number();
      case 8: return replace_word();
      case 9: return move();
      case 10: text_.resize(place()); return;
      default: return insert_token();
    }
  }

  void insert_bytes() { text_.insert(below(text_.size() + 1), below(8) + 1, any_byte()); }

  void repeat() {
    std::string piece = text_.substr(place(), length());
    size_t at = place();
    for (size_t left = below(20) == 0 ? 200 : 1 + below(3); left > 0; --left) {
      text_.insert(at, piece);
    }
  }

  void splice() {
    const std::string& other = inputs_[below(inputs_.size())];
    if (other.empty()) return;
    std::string piece = other.substr(below(other.size()), below(2) ? length() : std::string::npos);
    if (below(2)) return static_cast<void>(text_.insert(place(), piece));
    text_.replace(place(), piece.size(), piece);
  }

  void change_digit() {
    size_t at = text_.find_first_of("0123456789", place());
    if (at != std::string::npos) text_[at] = static_cast<char>('0' + below(10));
  }

  // Replaces a decimal integer by one at the end of some range.
  void replace_number() {
    static const std::vector<std::string> kNumbers = {"0",
                                                      "1",
                                                      "-1",
                                                      "255",
                                                      "65536",
                                                      "2147483647",
                                                      "-2147483648",
                                                      "4294967296",
                                                      "9223372036854775807",
                                                      "-9223372036854775808",
                                                      "18446744073709551616",
                                                      "1e999",
                                                      "-0.0",
                                                      "1e-320",
                                                      "0x7f",
                                                      "99999999999999999999999999"};
    size_t from = text_.find_first_of("0123456789", place());
    if (from == std::string::npos) return;
    size_t to = text_.find_first_not_of("0123456789.", from);
    text_.replace(from, (to == std::string::npos ? text_.size() : to) - from,
                  kNumbers[below(kNumbers.size())]);
  }

  // Replaces bytes by a little- or big-endian number at the end of its range.
  void replace_word() {
    static const uint64_t kWords[] = {0,
                                      1,
                                      0x7f,
                                      0x80,
                                      0xff,
                                      0x7fff,
                                      0xffff,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      0x100000000ull,
                                      INT64_MAX,
                                      uint64_t{1} << 63,
                                      UINT64_MAX,
                                      UINT64_MAX - 7,
                                      1000000};
    uint64_t word = kWords[below(std::size(kWords))];
    size_t width = size_t{1} << below(4), at = place();
    char bytes[8];
    std::memcpy(bytes, &word, sizeof word);
    if (below(4) == 0) std::reverse(bytes, bytes + width);
    for (size_t i = 0; i < width && at + i < text_.size(); ++i) text_[at + i] = bytes[i];
  }

  void move() {
    size_t from = place();
    std::string piece = text_.substr(from, length());
    text_.erase(from, piece.size());
    text_.insert(below(text_.size() + 1), piece);
  }

  void insert_token() {
    static const std::vector<std::string> kTokens = {
        "(",       ")",       "[",      "]",  "{",   "}",    "\"",      "\\",
        "\\u0000", "\\ud800", ",",      ":",  "=",   "-",    "..",      "null",
        "true",    "[[[[",    "{\"\":", "//", "\n",  "\xff", "\xc3",    "%",
        "/",       "*",       "..",     "'",  "nan", "inf",  "(((((((", "\xf0\x9f\x98\x80"};
    text_.insert(below(text_.size() + 1), kTokens[below(kTokens.size())]);
  }

  const std::vector<std::string>& inputs_;
  Rng& random_;
  std::string text_;
};

}  // namespace

std::string mutated(const std::vector<std::string>& inputs, uint64_t seed, uint64_t index) {
  // Both numbers are mixed first, so that neighbouring seeds and indices give unrelated sequences.
  Rng random(Rng(Rng(seed).next() ^ index).next());
  return Mutator(inputs, random).run();
}

}  // namespace tilewright::fuzz
