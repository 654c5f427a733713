#include "models/onnx/mapping.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/onnx/patterns.h"
#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

bool contains(const std::vector<std::string>& steps, const std::string& step) {
  return std::find(steps.begin(), steps.end(), step) != steps.end();
}

// Whether a value of `shape` has an element for each along one axis of `all`, and one for the others.
bool follows_axis(const Shape& shape, const Shape& all, size_t axis) {
  if (shape.size() > all.size()) return false;
  const size_t first = all.size() - shape.size();
  if (axis < first) return false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != (first + d == axis ? all[axis] : Extent(1))) return false;
  }
  return true;
}

// Why a shape is not known: the first node on the way to the value whose inputs have shapes and whose output has none.
std::string unknown_shape(const Graph& graph, std::string value) {
  std::string wanted = fmt::format("the shape of '{}' is not known", value);
  std::set<const Node*> seen;
  const Node* first = nullptr;
  while (const Node* node = graph.producer(value)) {
    if (!seen.insert(node).second) return wanted;
    first = node;
    const auto before = std::ranges::find_if(node->inputs, [&](const std::string& input) {
      return !input.empty() && !graph.value(input).shape;
    });
    if (before == node->inputs.end()) break;
    value = *before;
  }
  if (first == nullptr) return wanted;
  const std::string begins =
      fmt::format("{}: it begins at '{}' ({})", wanted, first->label(), first->full_op());
  const std::string size = graph.values().without_most(*first);
  if (size.empty()) {
    return begins + ", whose output has no shape that follows from its inputs";
  }
  return fmt::format(
      "{}: the run calculates the size '{}', and nothing says its most; --dim "
      "'{}=1..N' says it",
      begins, size, size);
}

}  // namespace

const Value& Mapping::input(const Node& node, size_t i) const {
  static const std::string kNone;
  return graph.value(node.has_input(i) ? node.inputs[i] : kNone);
}

const Shape& Mapping::shape(const std::string& value) const {
  const std::optional<Shape>& known = graph.value(value).shape;
  if (!known) throw NotMapped(unknown_shape(graph, value));
  return *known;
}

const Shape& Mapping::shape(const Node& node, size_t i) const {
  if (!node.has_input(i)) throw NotMapped(fmt::format("input {} is left out", i));
  return shape(node.inputs[i]);
}

ElemType Mapping::elem(const std::string& value) const {
  const DataType type = graph.value(value).type;
  std::optional<ElemType> elem = elem_type(type);
  if (options.whole && elem == ElemType::boolean) return ElemType::u8;
  if (type == DataType::Undefined) {
    throw NotMapped(fmt::format("the type of '{}' is not known", value));
  }
  if (!elem || *elem == ElemType::boolean || bits_of(*elem) < 8) {
    throw NotMapped(fmt::format("'{}' is of {}, which no operand has", value, describe(type)));
  }
  return *elem;
}

int64_t Mapping::number(const Extent& e) const {
  if (e.fixed() && e.number() < 1) throw NotMapped(fmt::format("a size is {}", e.text()));
  if (auto number = extents().stand_in(e)) return *number;
  for (const NamedSize& size : extents().named()) {
    if (!size.by_value || e.text().find(size.name) == std::string::npos) continue;
    if (size.stand_in == 0) {
      throw NotMapped(fmt::format(
          "values of the run say its size {}, the {}th of those and of ranged dimensions; expected "
          "{} at most. Give dimensions one size each with --dim",
          size.name, &size - extents().named().data() + 1, kStandIns.size()));
    }
    throw NotMapped(
        fmt::format("a size is {}, and values of the run say {}; expected a multiple of such a "
                    "size, of which a "
                    "model has {} with those of its inputs. Cut the model in front of it with "
                    "onnx.utils.extract_model",
                    e.text(), size.name, kStandIns.size()));
  }
  throw NotMapped(fmt::format(
      "a size is {}, which is no multiple of a ranged dimension; give that dimension one size",
      e.text()));
}

DimSize Mapping::size(const Extent& e) const {
  if (options.whole) return {number(e), number(e)};
  std::optional<DimSize> range = extents().range(e);
  if (!range || range->max < 1) throw NotMapped(fmt::format("a size is {}", e.text()));
  return {std::max<int64_t>(1, range->min), range->max};
}

int64_t Mapping::fixed_size(const Extent& e, const std::string& what) const {
  if (!e.fixed() || e.number() < 1) {
    throw NotMapped(fmt::format("{} are {}; expected a number of 1 or more", what, e.text()));
  }
  return e.number();
}

DimSize Mapping::product(const Shape& sizes, size_t from, size_t to) const {
  std::optional<Extent> all = extents().product(sizes, from, to);
  if (!all) throw NotMapped("the number of elements overflows");
  return size(*all);
}

Draft Mapping::draft(const std::string& op, const Node& node) const {
  Draft d{SpecText(op), {}};
  d.layer.nodes = {&node};
  if (!node.outputs.empty()) d.layer.output = node.outputs[0];
  return d;
}

void Mapping::add_type(Draft* draft, ElemType type) const {
  if (type != ElemType::f32) draft->spec.text("dtype", to_string(type));
}

bool Mapping::fuse_function(Draft* draft, std::vector<std::string>* steps) const {
  auto match = match_function(graph, draft->layer.output);
  if (!match || contains(*steps, match->fn)) return false;
  // A function in a body is not that of a layer outside.
  if (match->nodes.back()->bodies != draft->layer.nodes[0]->bodies) return false;
  steps->push_back(match->fn);
  draft->layer.output = match->output;
  draft->layer.nodes.insert(draft->layer.nodes.end(), match->nodes.begin(), match->nodes.end());
  return true;
}

bool Mapping::fuse_sum(Draft* draft, size_t channel, std::vector<std::string>* steps) const {
  const std::string from = draft->layer.output;
  const Node* next = graph.only_user(from);
  if (next == nullptr || next->inputs.size() != 2 || next->outputs.empty()) return false;
  if (next->bodies != draft->layer.nodes[0]->bodies) return false;
  const bool bias_gelu = next->full_op() == "com.microsoft.BiasGelu";
  if ((next->full_op() != "Add" && !bias_gelu) || taken_.contains(next)) return false;
  const std::string& other = Graph::other_input(*next, from);
  const Value& added = graph.value(other);
  const Value& sum = graph.value(from);
  if (!added.shape || !sum.shape || added.type != sum.type) return false;
  const bool row = added.constant && follows_axis(*added.shape, *sum.shape, channel);
  if (row && !contains(*steps, "bias")) {
    steps->emplace_back("bias");
    draft->layer.operands["bias"] = other;
    if (bias_gelu) steps->emplace_back("gelu");
  } else if (!bias_gelu && *added.shape == *sum.shape && !contains(*steps, "add")) {
    steps->emplace_back("add");
    draft->layer.operands["D"] = other;
  } else {
    return false;
  }
  draft->layer.output = next->outputs[0];
  draft->layer.nodes.push_back(next);
  return true;
}

void Mapping::fuse(Draft* draft, size_t channel, std::vector<std::string> steps) const {
  while (fuse_function(draft, &steps) || fuse_sum(draft, channel, &steps)) {
  }
  if (!steps.empty()) draft->spec.texts("epilogue", steps);
}

}  // namespace tilewright::onnx
