// CuTe's tables as tests/foreign/cute prints them: its notation for layouts, evaluated here.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ir/arith/index_map.h"

namespace tilewright::test {

// A layout of CuTe: "((_4,_8),_2):((_16,_1),_8)" maps the pair (lane, value) to a number. An index
// into a mode is split into digits, the first one fastest, each times its stride.
class CuteLayout {
 public:
  // Throws std::runtime_error where the text is no such layout.
  explicit CuteLayout(const std::string& text);

  // The product of a top-level mode's extents, 1 for a mode that is not there.
  int64_t extent(size_t mode) const;
  int64_t size() const;
  int64_t operator()(int64_t first, int64_t second = 0) const;
  // The same as a map of a pair.
  IndexMap map() const;
  // FNV-1a over all values, the first mode fastest, as tests/foreign/cute/cute_print.h takes it.
  uint64_t hash() const;

 private:
  struct Digit {
    int64_t extent, stride;
  };
  std::vector<std::vector<Digit>> modes_;
};

class CuteHash {
 public:
  void add(int64_t number);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// A test that compares tables. It prints how many it compared and how many of them differ.
class CuteTables : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

// Counts a table and expects that none of its `places` places differs.
void expect_same_table(int64_t places, int64_t differ);

}  // namespace tilewright::test
