// The place of what a JSON parser hands on: it tells that of its own errors only.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>

namespace tilewright::weights {

// Reads bytes and tells in `*reached` how far it, or a copy of it, has come.
class CountingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// A parser's message, without the number of the error in front.
inline std::string without_number(const std::string& what) {
  size_t from = what.find(": ");
  return from == std::string::npos ? what : what.substr(from + 2);
}

}  // namespace tilewright::weights
