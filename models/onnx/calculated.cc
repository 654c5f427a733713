// Sizes that a run calculates, and the elements of values that say them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

constexpr int kMostMoves = 64;  // from a size to what says it

bool is_whole(DataType type) { return type == DataType::Int64 || type == DataType::Int32; }

// The number of elements of a value whose sizes are all numbers, of one axis at most.
std::optional<int64_t> length_of(const Value& v) {
  if (!v.shape || v.shape->size() > 1) return std::nullopt;
  if (v.shape->empty()) return 1;
  return (*v.shape)[0].fixed() ? std::optional((*v.shape)[0].number()) : std::nullopt;
}

}  // namespace

std::string Element::text() const {
  return known ? known->text() : fmt::format("{}[{}]", value, place);
}

// Where a node that only moves elements has this one from. Nothing for other nodes.
std::optional<Element> Values::source_of_element(const Node& node, int64_t place) const {
  static const std::set<std::string> kSame = {"Identity", "Cast", "Squeeze", "Unsqueeze",
                                              "Reshape"};
  if (!node.domain.empty() || !node.has_input(0)) return std::nullopt;
  if (kSame.contains(node.op)) return Element{{}, node.inputs[0], place};
  if (node.op == "Concat") {
    for (const std::string& input : node.inputs) {
      const auto length = length_of(at(input));
      if (!length) return std::nullopt;
      if (place < *length) return Element{{}, input, place};
      place -= *length;
    }
  }
  if (node.op == "Gather" && node.has_input(1)) {
    const auto& chosen = at(node.inputs[1]).contents;
    const auto length = length_of(at(node.inputs[0]));
    if (!chosen || !length || place >= static_cast<int64_t>(chosen->size())) return std::nullopt;
    const Extent& index = (*chosen)[static_cast<size_t>(place)];
    if (!index.fixed()) return std::nullopt;
    const auto found = axis_of(index.number(), static_cast<size_t>(*length));
    if (found) return Element{{}, node.inputs[0], static_cast<int64_t>(*found)};
  }
  return std::nullopt;
}

std::optional<Element> Values::element(std::string value, int64_t place) const {
  for (int steps = 0; steps < kMostMoves; ++steps) {
    const Value& v = at(value);
    if (v.contents && place < static_cast<int64_t>(v.contents->size())) {
      return Element{(*v.contents)[static_cast<size_t>(place)], value, place};
    }
    const auto length = length_of(v);
    if (!length || place < 0 || place >= *length || !is_whole(v.type)) return std::nullopt;
    const auto maker = producers_.find(value);
    const auto source = maker == producers_.end() ? std::optional<Element>()
                                                  : source_of_element(*maker->second, place);
    const auto from = source ? length_of(at(source->value)) : std::nullopt;
    if (!from || source->place >= *from || !is_whole(at(source->value).type)) break;
    value = source->value;
    place = source->place;
  }
  return Element{{}, value, place};
}

std::optional<Extent> Values::calculate(CalculatedSize size, std::optional<int64_t> most) {
  const auto own = std::ranges::find(calculated_, size.name, &CalculatedSize::name);
  if (own != calculated_.end()) {
    own->is_size = own->is_size || size.is_size;
    return Extent::named(size.name);
  }
  const auto given = given_.find(size.name);
  if (given != given_.end()) {
    most = most ? std::min(*most, given->second.max) : given->second.max;
  }
  // A range of a single size would be a number.
  if (!most || *most < 2) {
    without_most_.emplace(size.node, size.name);
    return std::nullopt;
  }
  const Extent made = extents_.declare(size.name, {1, *most}, true);
  calculated_.push_back(std::move(size));
  return made;
}

const CalculatedSize* Values::calculated(const Extent& size) const {
  for (const CalculatedSize& each : calculated_) {
    if (size == Extent::named(each.name)) return &each;
  }
  return nullptr;
}

std::string Values::without_most(const Node& node) const {
  const auto size = without_most_.find(&node);
  return size == without_most_.end() ? "" : size->second;
}

std::optional<Element> Step::element(size_t i, int64_t place) const {
  if (!node.has_input(i)) return std::nullopt;
  return values_.element(node.inputs[i], place);
}

std::optional<std::vector<Element>> Step::elements(size_t i) const {
  const auto length = length_of(input(i));
  if (!length || *length > kMaxContents) return std::nullopt;
  std::vector<Element> all;
  for (int64_t place = 0; place < *length; ++place) {
    auto one = element(i, place);
    if (!one) return std::nullopt;
    all.push_back(std::move(*one));
  }
  return all;
}

std::optional<Extent> Step::size(const Element& e, std::optional<int64_t> most) {
  if (e.known) return e.known;
  CalculatedSize size;
  size.name = e.text();
  size.is_size = true;
  size.limit = e;
  return calculate(std::move(size), most);
}

std::optional<Extent> Step::calculate(CalculatedSize size, std::optional<int64_t> most) {
  if (!node.bodies.empty()) return std::nullopt;  // no loop reads such sizes
  size.node = &node;
  return values_.calculate(std::move(size), most);
}

}  // namespace tilewright::onnx
