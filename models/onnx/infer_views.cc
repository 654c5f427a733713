// Operators that move elements or name them anew, and those that models calculate shapes with.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

void identity(Step& s) { s.set(0, s.type(), s.shape(0), s.input(0).contents); }

void constant(Step& s) {
  if (const Attribute* a = s.node.find("value_int")) {
    s.set(0, DataType::Int64, Shape{}, Shape{a->i});
  } else if (const Attribute* a = s.node.find("value_ints")) {
    const auto count = static_cast<int64_t>(a->ints.size());
    s.set(0, DataType::Int64, Shape{count}, Shape(a->ints.begin(), a->ints.end()));
  } else if (const Attribute* a = s.node.find("value_float")) {
    s.set_real(a->f);
  } else if (const Attribute* a = s.node.find("value_floats")) {
    s.set(0, DataType::Float, Shape{static_cast<int64_t>(a->floats.size())});
  }
}

void flatten(Step& s) {
  if (!s.shape(0)) return;
  const auto rank = static_cast<int64_t>(s.shape(0)->size());
  int64_t axis = s.node.integer("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank) return;
  auto rows = s.extents.product(*s.shape(0), 0, static_cast<size_t>(axis));
  auto columns = s.extents.product(*s.shape(0), static_cast<size_t>(axis));
  if (rows && columns) s.set(0, s.type(), Shape{*rows, *columns});
}

// The sizes of a shape, all of them numbers.
std::optional<std::vector<int64_t>> numbers_of(const Shape& shape) {
  std::vector<int64_t> sizes;
  for (const Extent& e : shape) {
    if (!e.fixed()) return std::nullopt;
    sizes.push_back(e.number());
  }
  return sizes;
}

// Contents of a value with these sizes, at these places of an axis alone.
Shape chosen_along(const Shape& contents, const std::vector<int64_t>& sizes, size_t axis,
                   const std::vector<int64_t>& places) {
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= sizes[d];
  for (size_t d = axis + 1; d < sizes.size(); ++d) inner *= sizes[d];
  Shape chosen;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t place : places) {
      const auto first = contents.begin() + (o * sizes[axis] + place) * inner;
      chosen.insert(chosen.end(), first, first + inner);
    }
  }
  return chosen;
}

// Contents with their axes in another order.
Shape transposed_contents(const Shape& contents, const std::vector<int64_t>& sizes,
                          const std::vector<int64_t>& order) {
  Shape turned;
  for (size_t i = 0; i < contents.size(); ++i) {
    // The place of element i of the result: its index along each axis, the last one first.
    auto rest = static_cast<int64_t>(i);
    std::vector<int64_t> index(sizes.size());
    for (size_t d = order.size(); d-- > 0;) {
      const auto axis = static_cast<size_t>(order[d]);
      index[axis] = rest % sizes[axis];
      rest /= sizes[axis];
    }
    int64_t place = 0;
    for (size_t d = 0; d < sizes.size(); ++d) place = place * sizes[d] + index[d];
    turned.push_back(contents[static_cast<size_t>(place)]);
  }
  return turned;
}

void transpose(Step& s) {
  if (!s.shape(0)) return;
  const Shape& from = *s.shape(0);
  std::vector<int64_t> order;
  for (size_t d = from.size(); d > 0; --d) order.push_back(static_cast<int64_t>(d) - 1);
  order = s.node.integers("perm").value_or(order);
  Shape out;
  for (int64_t d : order) {
    if (d < 0 || d >= static_cast<int64_t>(from.size())) return;
    out.push_back(from[static_cast<size_t>(d)]);
  }
  if (out.size() != from.size()) return;
  const auto sizes = numbers_of(from);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  const bool each_once = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  const auto& contents = s.input(0).contents;
  const bool known = contents && sizes && each_once;
  s.set(0, s.type(), out,
        known ? std::optional(transposed_contents(*contents, *sizes, order)) : std::nullopt);
}

void squeeze(Step& s) {
  if (!s.shape(0)) return;
  const Shape& from = *s.shape(0);
  std::vector<bool> gone(from.size());
  if (auto axes = s.numbers("axes", 1)) {
    for (int64_t a : *axes) {
      auto axis = axis_of(a, from.size());
      if (!axis) return;
      gone[*axis] = true;
    }
  } else if (s.node.has_input(1)) {
    return;
  } else {
    for (size_t d = 0; d < from.size(); ++d) gone[d] = from[d] == Extent(1);
  }
  Shape out;
  for (size_t d = 0; d < from.size(); ++d) {
    if (!gone[d]) out.push_back(from[d]);
  }
  s.set(0, s.type(), out, s.input(0).contents);
}

void unsqueeze(Step& s) {
  auto axes = s.numbers("axes", 1);
  if (!s.shape(0) || !axes) return;
  const size_t rank = s.shape(0)->size() + axes->size();
  std::vector<bool> fresh(rank);
  for (int64_t a : *axes) {
    auto axis = axis_of(a, rank);
    if (!axis || fresh[*axis]) return;
    fresh[*axis] = true;
  }
  Shape out;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) out.push_back(fresh[d] ? Extent(1) : (*s.shape(0))[next++]);
  s.set(0, s.type(), out, s.input(0).contents);
}

std::optional<Shape> joined_shape(Step& s) {
  if (!s.shape(0)) return std::nullopt;
  Shape out = *s.shape(0);
  auto axis = axis_of(s.node.integer("axis", 0), out.size());
  if (!axis) return std::nullopt;
  Extent& along = out[*axis];
  for (size_t i = 1; i < s.node.inputs.size(); ++i) {
    const std::optional<Shape>& more = s.shape(i);
    if (!more || more->size() != out.size()) return std::nullopt;
    auto size = s.extents.plus(along, (*more)[*axis]);
    if (!size) return std::nullopt;
    along = *size;
  }
  return out;
}

std::optional<Shape> joined_contents(Step& s) {
  Shape all;
  for (size_t i = 0; i < s.node.inputs.size(); ++i) {
    const std::optional<Shape>& contents = s.input(i).contents;
    if (!contents) return std::nullopt;
    all.insert(all.end(), contents->begin(), contents->end());
  }
  return all;
}

void concat(Step& s) { s.set(0, s.type(), joined_shape(s), joined_contents(s)); }

void split(Step& s) {
  if (!s.shape(0)) return;
  auto axis = axis_of(s.node.integer("axis", 0), s.shape(0)->size());
  if (!axis) return;
  const auto parts = static_cast<int64_t>(s.node.outputs.size());
  const Extent whole = (*s.shape(0))[*axis];
  auto sizes = s.numbers("split", 1);
  if (!sizes && s.node.has_input(1)) return;
  // Equal parts, the last one of what is left.
  auto rounded = s.extents.plus(whole, parts - 1);
  auto share = rounded ? s.extents.quotient(*rounded, parts) : std::nullopt;
  for (int64_t i = 0; i < parts; ++i) {
    const auto at = static_cast<size_t>(i);
    std::optional<Extent> size = share;
    if (sizes) {
      size = at < sizes->size() ? std::optional<Extent>((*sizes)[at]) : std::nullopt;
    } else if (share && i + 1 == parts) {
      auto before = s.extents.times(*share, parts - 1);
      size = before ? s.extents.minus(whole, *before) : std::nullopt;
    }
    if (!size) return;
    Shape out = *s.shape(0);
    out[*axis] = *size;
    s.set(at, s.type(), out);
  }
}

// A bound of a slice counted from the front and kept within the size.
std::optional<Extent> bound(Step& s, const Extent& at, const Extent& size) {
  auto range = s.extents.range(size);
  if (!range) return std::nullopt;
  if (!at.fixed()) {  // of a size that is sliced by itself or by less
    const auto own = s.extents.range(at);
    const bool within = at == size || (own && own->min >= 0 && own->max <= range->min);
    return within ? std::optional(at) : std::nullopt;
  }
  if (at.number() >= range->max) return size;
  if (at.number() < 0) {
    if (at.number() <= -range->max) return Extent(0);
    return at.number() >= -range->min ? s.extents.plus(size, at) : std::nullopt;
  }
  return at.number() <= range->min ? std::optional(at) : std::nullopt;
}

struct Slice {
  size_t axis;
  Element start, end;
  int64_t step;
};

std::optional<std::vector<Slice>> slices(Step& s, size_t rank) {
  auto list = [&](const char* attribute, size_t input) -> std::optional<std::vector<Element>> {
    const auto own = s.node.integers(attribute);
    if (!own) return s.elements(input);
    std::vector<Element> numbers;
    for (int64_t number : *own) numbers.push_back({Extent(number), "", 0});
    return numbers;
  };
  auto starts = list("starts", 1), ends = list("ends", 2);
  auto axes = s.numbers("axes", 3);
  auto steps = s.numbers("steps", 4);
  if (!starts || !ends || starts->size() != ends->size()) return std::nullopt;
  if ((!axes && s.node.has_input(3)) || (!steps && s.node.has_input(4))) return std::nullopt;
  std::vector<Slice> out;
  for (size_t i = 0; i < starts->size(); ++i) {
    if ((axes && i >= axes->size()) || (steps && i >= steps->size())) return std::nullopt;
    auto axis = axis_of(axes ? (*axes)[i] : static_cast<int64_t>(i), rank);
    if (!axis) return std::nullopt;
    out.push_back({*axis, (*starts)[i], (*ends)[i], steps ? (*steps)[i] : 1});
  }
  return out;
}

// The elements that one part of a slice takes of an axis.
struct Taken {
  Extent first, count;
};

// Backwards, from the later bound down to the earlier one.
std::optional<Taken> taken_backwards(Step& s, const Slice& part, const Extent& size) {
  const auto range = s.extents.range(size);
  const Extent &from = *part.start.known, &to = *part.end.known;
  if (!range || !from.fixed() || !to.fixed()) return std::nullopt;
  const int64_t start = from.number(), end = to.number();
  const bool from_last = start == -1 || start >= range->max - 1;
  if (part.step == -1 && from_last && end < -range->max) {
    const auto last = s.extents.minus(size, 1);
    return last ? std::optional(Taken{*last, size}) : std::nullopt;
  }
  if (!size.fixed()) return std::nullopt;
  const int64_t n = size.number();
  if (n < 1) return Taken{0, 0};
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + n : start, 0, n - 1);
  const int64_t stop =
      end < 0 ? std::max<int64_t>(end < -n ? -1 : end + n, -1) : std::min(end, n - 1);
  // A step may be as small as a number goes.
  const int64_t step = part.step == std::numeric_limits<int64_t>::min() ? part.step + 1 : part.step;
  const int64_t span = std::max<int64_t>(0, first - stop);
  return Taken{first, span / -step + (span % -step != 0 ? 1 : 0)};
}

std::optional<Taken> taken_of(Step& s, const Slice& part, const Extent& size) {
  if (!part.start.known || !part.end.known) return std::nullopt;
  if (part.step < 0) return taken_backwards(s, part, size);
  auto from = bound(s, *part.start.known, size), to = bound(s, *part.end.known, size);
  auto span = from && to ? s.extents.minus(*to, *from) : std::nullopt;
  auto rounded = span ? s.extents.plus(*span, part.step - 1) : std::nullopt;
  auto count = rounded ? s.extents.quotient(*rounded, part.step) : std::nullopt;
  if (!count) return std::nullopt;
  if (count->fixed() && count->number() < 0) count = Extent(0);
  return Taken{*from, *count};
}

// No slice has more elements of an axis.
int64_t most_taken(int64_t size, int64_t step) {
  const int64_t by = step > 0 ? step : -std::max(step, -std::numeric_limits<int64_t>::max());
  return std::max<int64_t>(size / by + (size % by != 0 ? 1 : 0), 2);
}

// As many elements of the axis as a run finds between bounds: as values say them, or as they lie in a size that
// each run gives.
std::optional<Extent> calculated_slice(Step& s, const Slice& part, const Extent& size) {
  const auto is_told = [](const Element& e) { return !e.known || e.known->fixed(); };
  const auto range = s.extents.range(size);
  if (!range || !is_told(part.start) || !is_told(part.end) || !s.node.has_input(0)) {
    return std::nullopt;
  }
  CalculatedSize taken;
  taken.name =
      fmt::format("{}[{}:{}:{}]", size.text(), part.start.text(), part.end.text(), part.step);
  taken.start = part.start;
  taken.limit = part.end;
  taken.step = part.step;
  taken.sliced = s.node.inputs[0];
  taken.axis = part.axis;
  return s.calculate(std::move(taken), most_taken(range->max, part.step));
}

void slice(Step& s) {
  if (!s.shape(0)) return;
  Shape out = *s.shape(0);
  auto list = slices(s, out.size());
  if (!list) return;
  std::optional<Shape> contents = s.input(0).contents;
  for (const Slice& part : *list) {
    if (part.step == 0) return;
    const auto taken = taken_of(s, part, out[part.axis]);
    const auto sizes = numbers_of(out);
    if (!taken) {
      const auto count = calculated_slice(s, part, out[part.axis]);
      if (!count) return;
      out[part.axis] = *count;
      contents.reset();
      continue;
    }
    out[part.axis] = taken->count;
    if (!contents || !sizes || !taken->first.fixed() || !taken->count.fixed()) {
      contents.reset();
      continue;
    }
    std::vector<int64_t> places;
    for (int64_t i = 0; i < std::min(taken->count.number(), kMaxContents); ++i) {
      places.push_back(taken->first.number() + i * part.step);
    }
    contents = chosen_along(*contents, *sizes, part.axis, places);
  }
  s.set(0, s.type(), out, contents);
}

void shape(Step& s) {
  if (!s.shape(0)) return s.set(0, DataType::Int64, std::nullopt);
  const auto rank = static_cast<int64_t>(s.shape(0)->size());
  auto clamp = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank); };
  const int64_t from = clamp(s.node.integer("start", 0)), to = clamp(s.node.integer("end", rank));
  Shape sizes;
  for (int64_t d = from; d < to; ++d) sizes.push_back((*s.shape(0))[static_cast<size_t>(d)]);
  s.set(0, DataType::Int64, Shape{static_cast<int64_t>(sizes.size())}, sizes);
}

void size(Step& s) {
  auto count = s.shape(0) ? s.extents.product(*s.shape(0)) : std::nullopt;
  s.set(0, DataType::Int64, Shape{}, count ? std::optional<Shape>({*count}) : std::nullopt);
}

void gather(Step& s) {
  if (!s.shape(0) || !s.shape(1)) return;
  auto axis = axis_of(s.node.integer("axis", 0), s.shape(0)->size());
  if (!axis) return;
  Shape out = *s.shape(0);
  out.erase(out.begin() + static_cast<int64_t>(*axis));
  out.insert(out.begin() + static_cast<int64_t>(*axis), s.shape(1)->begin(), s.shape(1)->end());
  std::optional<Shape> contents;
  auto indices = s.numbers(1);
  if (const auto& from = s.input(0).contents; from && indices && s.shape(0)->size() == 1) {
    contents.emplace();
    for (int64_t i : *indices) {
      auto at = axis_of(i, from->size());
      if (!at) return;
      contents->push_back((*from)[*at]);
    }
  }
  s.set(0, s.type(), out, contents);
}

void pad(Step& s) {
  auto pads = s.numbers("pads", 1);
  if (!s.shape(0) || !pads || s.node.has_input(3)) return;
  Shape out = *s.shape(0);
  if (pads->size() != 2 * out.size()) return;
  for (size_t d = 0; d < out.size(); ++d) {
    auto size = s.extents.plus(out[d], (*pads)[d]);
    if (size) size = s.extents.plus(*size, (*pads)[d + out.size()]);
    if (!size) return;
    out[d] = *size;
  }
  s.set(0, s.type(), out);
}

// Its inputs end with the results of its branches, of which it gives out one. What these agree in is
// known, or all of the branch that its condition takes.
void either_branch(Step& s) {
  const size_t outputs = s.node.outputs.size();
  if (s.node.inputs.size() != 1 + 2 * outputs) return;
  for (size_t i = 0; i < outputs; ++i) {
    if (const auto taken = taken_input(s.node, s.input(0), i)) {
      const Value& v = s.input(*taken);
      s.set(i, v.type, v.shape, v.contents);
      continue;
    }
    const Value &a = s.input(1 + i), &b = s.input(1 + outputs + i);
    if (a.type == b.type) s.set(i, a.type, a.shape == b.shape ? a.shape : std::nullopt);
  }
}

}  // namespace

const Rules& view_rules() {
  static const Rules kRules = {{"Identity", identity}, {"Constant", constant},
                               {"Flatten", flatten},   {"Transpose", transpose},
                               {"Squeeze", squeeze},   {"Unsqueeze", unsqueeze},
                               {"Concat", concat},     {"Split", split},
                               {"Slice", slice},       {"Shape", shape},
                               {"Size", size},         {"Gather", gather},
                               {"Pad", pad},           {"If", either_branch}};
  return kRules;
}

}  // namespace tilewright::onnx
