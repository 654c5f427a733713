// Sizes of a model's values: numbers, or such times sizes that are known only at launch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/ops/spec.h"  // DimSize

namespace tilewright::onnx {

// A number times named sizes: 12, seq, 64·batch·seq. Also the elements of what a model calculates
// shapes from, so it may be 0 or negative. Equal ones are the same size in each run.
class Extent {
 public:
  Extent(int64_t number)
      : number_(number) {}  // NOLINT(google-explicit-constructor): a number is one
  static Extent named(const std::string& name);

  bool fixed() const { return names_.empty(); }
  int64_t number() const { return number_; }  // requires fixed()
  std::string text() const;                   // "64*batch*seq"
  bool operator==(const Extent&) const = default;

 private:
  friend class Extents;
  int64_t number_;
  std::vector<std::string> names_;  // sorted; one for each factor
};

using Shape = std::vector<Extent>;

// The ranges of named sizes, and arithmetic. What is no number times names gets a name of its own with
// the range that it has; equal calculations give equal names. Nothing comes back where the result is
// not defined, overflows, or is calculated in more steps than shapes are.
class Extents {
 public:
  // A size of that name; one with a range of a single number is that number.
  Extent declare(const std::string& name, const DimSize& range);
  std::optional<DimSize> range(const Extent& e) const;

  std::optional<Extent> plus(const Extent& a, const Extent& b);
  std::optional<Extent> minus(const Extent& a, const Extent& b);
  std::optional<Extent> times(const Extent& a, const Extent& b) const;
  // Rounded down. Requires a positive divisor, else nothing.
  std::optional<Extent> quotient(const Extent& a, const Extent& b);
  std::optional<Extent> product(const Shape& sizes, size_t from = 0, size_t to = SIZE_MAX) const;

 private:
  std::optional<Extent> derived(const std::string& text, int64_t least, int64_t most);

  std::map<std::string, DimSize> ranges_;
};

}  // namespace tilewright::onnx
