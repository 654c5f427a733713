// A line of the text form of graphs.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

namespace tilewright::graph {

// Reads one line from left to right. Throws GraphError with the line, the column and the byte.
class TextLine {
 public:
  // `begin`: the byte of the whole text at which it begins.
  TextLine(std::string_view text, int number, size_t begin)
      : text_(text), number_(number), begin_(begin) {}

  [[noreturn]] void fail(const std::string& why) const;
  int number() const { return number_; }
  bool is_at(char c) {
    skip();
    return at_ < text_.size() && text_[at_] == c;
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word);
  bool done() {
    skip();
    return at_ == text_.size();
  }
  std::string word();
  // In double quotes.
  std::string text();
  template <class T>
  T value() {
    skip();
    T value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
  int number_;
  size_t begin_;
};

}  // namespace tilewright::graph
