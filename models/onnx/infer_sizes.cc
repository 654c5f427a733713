// Operators that have the sizes which their inputs say: shapes, counts, and where numbers begin and end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

// The shape that a reshape is given. A single size that a run calculates is what the others leave.
std::optional<Shape> wanted_shape(Step& s) {
  if (s.input(1).contents) return s.input(1).contents;
  const auto given = s.elements(1);
  if (!given) return std::nullopt;
  const auto is_open = [](const Element& e) { return !e.known || *e.known == Extent(-1); };
  const bool follows = std::ranges::count_if(*given, is_open) == 1;
  Shape out;
  for (const Element& e : *given) {
    const auto size = follows && is_open(e) ? Extent(-1) : s.size(e);
    if (!size) return std::nullopt;
    out.push_back(*size);
  }
  return out;
}

// 0 keeps the size that stands there, -1 is what is left.
void reshape(Step& s) {
  const std::optional<Shape> wanted = wanted_shape(s);
  if (!wanted) return s.set(0, s.type(), std::nullopt);
  Shape out = *wanted;
  size_t open = out.size();
  const bool zero_is_zero = s.node.integer("allowzero", 0) != 0;
  for (size_t d = 0; d < out.size(); ++d) {
    if (out[d] == Extent(-1)) {
      open = d;
      out[d] = 1;
    } else if (out[d] == Extent(0) && !zero_is_zero) {
      if (!s.shape(0) || d >= s.shape(0)->size()) return s.set(0, s.type(), std::nullopt);
      out[d] = (*s.shape(0))[d];
    }
  }
  if (open < out.size()) {
    auto all = s.shape(0) ? s.extents.product(*s.shape(0)) : std::nullopt;
    auto rest = s.extents.product(out);
    auto size = all && rest ? s.extents.quotient(*all, *rest) : std::nullopt;
    if (!size) return s.set(0, s.type(), std::nullopt);
    out[open] = *size;
  }
  s.set(0, s.type(), out, s.input(0).contents);
}

// Where the input has another size than 1, a size that a run calculates can only be the same, or 1.
void expand(Step& s) {
  const auto given = s.elements(1);
  if (!s.shape(0) || !given) return;
  const Shape& from = *s.shape(0);
  Shape to;
  for (size_t d = 0; d < given->size(); ++d) {
    const size_t behind = given->size() - d;  // counted from the last axis
    const bool follows = behind <= from.size() && from[from.size() - behind] != Extent(1);
    const Element& e = (*given)[d];
    const auto size = !e.known && follows ? Extent(1) : s.size(e);
    if (!size) return;
    to.push_back(*size);
  }
  s.set(0, s.type(), broadcast(from, to));
}

// The sizes or numbers that an input says.
std::optional<Shape> calculated_sizes(Step& s, size_t input) {
  const auto given = s.elements(input);
  if (!given) return std::nullopt;
  Shape sizes;
  for (const Element& e : *given) {
    const auto size = s.size(e);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

void tile(Step& s) {
  const std::optional<Shape> times = calculated_sizes(s, 1);
  if (!s.shape(0) || !times || times->size() != s.shape(0)->size()) return;
  Shape out;
  for (size_t d = 0; d < times->size(); ++d) {
    auto size = s.extents.times((*s.shape(0))[d], (*times)[d]);
    if (!size) return;
    out.push_back(*size);
  }
  s.set(0, s.type(), out);
}

void constant_of_shape(Step& s) {
  const std::optional<Shape> sizes = calculated_sizes(s, 0);
  const Attribute* value = s.node.find("value");
  const bool has = value != nullptr && value->t && value->t->count == 1 && value->t->readable();
  const DataType type = has ? value->t->type : DataType::Float;
  std::optional<Shape> contents;
  if (sizes && sizes->size() == 1 && (*sizes)[0].fixed() && has && type == DataType::Int64) {
    const int64_t count = (*sizes)[0].number();
    if (count >= 0 && count <= kMaxContents) {
      contents = Shape(static_cast<size_t>(count), value->t->whole_at(0));
    }
  }
  s.set(0, type, sizes, contents);
}

// The only number of an input, of whatever type.
std::optional<double> number_of(const Step& s, size_t i) {
  if (const auto whole = s.numbers(i); whole && whole->size() == 1) {
    return static_cast<double>((*whole)[0]);
  }
  return s.input(i).scalar();
}

// How many numbers go from one to another; nothing where one of them is not known.
std::optional<Extent> known_count(Step& s) {
  const auto &from = s.input(0).contents, &to = s.input(1).contents;
  const auto step = s.numbers(2);
  if (from && to && step && from->size() == 1 && to->size() == 1 && step->size() == 1 &&
      (*step)[0] > 0) {
    const auto span = s.extents.minus((*to)[0], (*from)[0]);
    const auto rounded = span ? s.extents.plus(*span, (*step)[0] - 1) : std::nullopt;
    return rounded ? s.extents.quotient(*rounded, (*step)[0]) : std::nullopt;
  }
  const auto start = number_of(s, 0), limit = number_of(s, 1), delta = number_of(s, 2);
  if (!start || !limit || !delta || *delta == 0) return std::nullopt;
  const double count = std::ceil((*limit - *start) / *delta);
  constexpr double kMost = int64_t{1} << 40;
  if (!(count <= kMost)) return std::nullopt;
  return Extent(static_cast<int64_t>(std::max(count, 0.0)));
}

// The same of numbers that a run calculates: a size that an element says, where they go from 0 in steps of 1.
std::optional<Extent> calculated_range(Step& s) {
  if (s.node.inputs.size() != 3 || s.node.outputs.empty()) return std::nullopt;
  CalculatedSize size;
  const auto limit = s.element(1, 0);
  if (limit && !limit->known && number_of(s, 0) == 0.0 && number_of(s, 2) == 1.0) {
    size.name = limit->text();
    size.limit = *limit;
  } else {
    size.name = fmt::format("{}.0", s.node.outputs[0]);
  }
  return s.calculate(std::move(size), std::nullopt);
}

void range(Step& s) {
  auto count = known_count(s);
  if (!count) count = calculated_range(s);
  if (!count) return;
  if (count->fixed() && count->number() < 0) count = Extent(0);
  const auto& from = s.input(0).contents;
  const auto step = s.numbers(2);
  std::optional<Shape> contents;
  if (from && step && from->size() == 1 && step->size() == 1 && count->fixed() &&
      count->number() <= kMaxContents) {
    contents.emplace();
    for (int64_t i = 0; i < count->number() && contents; ++i) {
      const auto number = s.extents.plus((*from)[0], i * (*step)[0]);
      if (number) contents->push_back(*number);
      if (!number) contents.reset();
    }
  }
  s.set(0, s.type(), Shape{*count}, contents);
}

}  // namespace

const Rules& size_rules() {
  static const Rules kRules = {{"Reshape", reshape},
                               {"Expand", expand},
                               {"Tile", tile},
                               {"ConstantOfShape", constant_of_shape},
                               {"Range", range}};
  return kRules;
}

}  // namespace tilewright::onnx
