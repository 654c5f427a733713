// Sizes of a model's values: numbers, or such times sizes that are known only at launch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
  bool has(const std::string& name) const;    // whether it depends on that size
  std::string text() const;                   // "64*batch*seq"
  bool operator==(const Extent&) const = default;

 private:
  friend class Extents;
  int64_t number_;
  std::vector<std::string> names_;  // sorted; one for each factor
};

using Shape = std::vector<Extent>;

// Numbers that stand for named sizes in whole models (Extents::stand_in). Each is a prime, so that a number
// of the program depends on a size exactly if it is a multiple, and so that no pass can cut the size. They
// are small, so that shapes of several do not overflow. A model has to become the same program with either
// row: a number that depends on a size in another way differs.
using StandIns = std::array<int64_t, 8>;
inline constexpr StandIns kStandIns = {2137, 1913, 2389, 2621, 2243, 1999, 2503, 2719};
inline constexpr StandIns kOtherStandIns = {2141, 1907, 2383, 2617, 2239, 1997, 2477, 2713};

// Whether a number is a multiple of a stand-in.
bool has_stand_in(int64_t number);

// A size that a model's inputs name, or that values of a run say: then it may also be 0.
struct NamedSize {
  std::string name;
  DimSize range;
  int64_t stand_in = 0;
  bool by_value = false;
};

// The ranges of named sizes, and arithmetic. What is no number times names gets a name of its own with
// the range that it has; equal calculations give equal names. Nothing comes back where the result is
// not defined, overflows, or is calculated in more steps than shapes are.
class Extents {
 public:
  explicit Extents(const StandIns& stand_ins = kStandIns) : stand_ins_(stand_ins) {}

  // A size of that name; one with a range of a single number is that number.
  Extent declare(const std::string& name, const DimSize& range, bool by_value = false);
  // The sizes that were declared with ranges, in their order. The stand-in is 0 where there are more of
  // them than stand-ins.
  const std::vector<NamedSize>& named() const { return named_; }
  std::optional<DimSize> range(const Extent& e) const;
  // The extent with stand-ins in place of names. Nothing for one that is no number times declared sizes.
  std::optional<int64_t> stand_in(const Extent& e) const;

  std::optional<Extent> plus(const Extent& a, const Extent& b);
  std::optional<Extent> minus(const Extent& a, const Extent& b);
  std::optional<Extent> times(const Extent& a, const Extent& b) const;
  // Rounded down. Requires a positive divisor, else nothing.
  std::optional<Extent> quotient(const Extent& a, const Extent& b);
  std::optional<Extent> product(const Shape& sizes, size_t from = 0, size_t to = SIZE_MAX) const;

 private:
  Extent with_range(const std::string& name, const DimSize& range);
  std::optional<Extent> derived(const std::string& text, int64_t least, int64_t most);
  std::optional<Extent> named_sum(const Extent& a, const Extent& b);
  std::optional<Extent> plus_number(const Extent& a, int64_t number);

  std::map<std::string, DimSize> ranges_;
  std::map<std::string, std::pair<Extent, int64_t>> sums_;  // by their names: a size and a number
  std::vector<NamedSize> named_;
  StandIns stand_ins_;
};

}  // namespace tilewright::onnx
