#include "tests/kernel/instructions/cute_tables.h"

#include <cctype>
#include <iostream>
#include <stdexcept>

namespace tilewright::test {
namespace {

// Counts of the test that runs.
struct Tally {
  int64_t tables = 0, differ = 0, places = 0;
} tally;

// The numbers of a nested tuple such as "((_4,_8),_2)", a list for each of its top-level elements.
std::vector<std::vector<int64_t>> parse_tuple(const std::string& text) {
  std::vector<std::vector<int64_t>> modes;
  int depth = 0;
  bool fresh = true;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(') {
      ++depth;
    } else if (c == ')') {
      --depth;
    } else if (c == ',') {
      fresh |= depth == 1;
    } else if (std::isdigit(static_cast<unsigned char>(c))) {
      size_t length = 0;
      const int64_t number = std::stoll(text.substr(i), &length);
      if (fresh) modes.emplace_back();
      fresh = false;
      modes.back().push_back(number);
      i += length - 1;
    } else if (c != '_') {
      throw std::runtime_error("no tuple of CuTe: " + text);
    }
  }
  if (depth != 0 || modes.empty()) throw std::runtime_error("no tuple of CuTe: " + text);
  return modes;
}

}  // namespace

CuteLayout::CuteLayout(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw std::runtime_error("no layout of CuTe: " + text);
  const auto shape = parse_tuple(text.substr(0, colon));
  const auto stride = parse_tuple(text.substr(colon + 1));
  if (shape.size() != stride.size()) throw std::runtime_error("no layout of CuTe: " + text);
  for (size_t mode = 0; mode < shape.size(); ++mode) {
    if (shape[mode].size() != stride[mode].size()) {
      throw std::runtime_error("no layout of CuTe: " + text);
    }
    modes_.emplace_back();
    for (size_t d = 0; d < shape[mode].size(); ++d) {
      modes_.back().push_back({shape[mode][d], stride[mode][d]});
    }
  }
}

int64_t CuteLayout::extent(size_t mode) const {
  int64_t product = 1;
  if (mode >= modes_.size()) return product;
  for (const Digit& digit : modes_[mode]) product *= digit.extent;
  return product;
}

int64_t CuteLayout::size() const {
  int64_t product = 1;
  for (size_t mode = 0; mode < modes_.size(); ++mode) product *= extent(mode);
  return product;
}

int64_t CuteLayout::operator()(int64_t first, int64_t second) const {
  int64_t sum = 0;
  const int64_t index[] = {first, second};
  for (size_t mode = 0; mode < modes_.size() && mode < 2; ++mode) {
    int64_t rest = index[mode];
    for (const Digit& digit : modes_[mode]) {
      sum += rest % digit.extent * digit.stride;
      rest /= digit.extent;
    }
  }
  return sum;
}

IndexMap CuteLayout::map() const {
  return IndexMap::make(2, [&](const std::vector<Var>& x) {
    Expr sum = 0;
    for (size_t mode = 0; mode < modes_.size() && mode < 2; ++mode) {
      int64_t unit = 1;
      for (const Digit& digit : modes_[mode]) {
        sum = sum + floormod(floordiv(x[mode], unit), digit.extent) * digit.stride;
        unit *= digit.extent;
      }
    }
    return std::vector<Expr>{sum};
  });
}

uint64_t CuteLayout::hash() const {
  CuteHash hash;
  for (int64_t i = 0; i < size(); ++i) hash.add((*this)(i % extent(0), i / extent(0)));
  return hash.value();
}

void CuteHash::add(int64_t number) {
  for (int i = 0; i < 8; ++i) value_ = (value_ ^ (number >> 8 * i & 0xff)) * 0x100000001b3u;
}

void CuteTables::SetUp() { tally = {}; }

void CuteTables::TearDown() {
  EXPECT_GT(tally.tables, 0);
  std::cout << tally.tables << " tables compared, " << tally.differ << " differ (" << tally.places
            << " places)\n";
}

void expect_same_table(int64_t places, int64_t differ) {
  ++tally.tables;
  tally.differ += differ != 0;
  tally.places += places;
  EXPECT_EQ(differ, 0) << "of " << places << " places";
}

}  // namespace tilewright::test
