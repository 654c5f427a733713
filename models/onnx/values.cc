#include "models/onnx/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/ops/operator.h"
#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

const Rule* find_rule(const std::string& op) {
  for (const Rules* rules : {&elementwise_rules(), &view_rules(), &size_rules(), &product_rules(),
                             &row_rules(), &choice_rules()}) {
    auto it = rules->find(op);
    if (it != rules->end()) return &it->second;
  }
  return nullptr;
}

Value value_of(const Tensor& t) {
  Value v;
  v.type = t.type;
  v.shape = Shape(t.shape.begin(), t.shape.end());
  v.tensor = &t;
  v.constant = true;
  const std::optional<ElemType> elem = elem_type(t.type);
  const bool whole = elem && (is_integer(*elem) || *elem == ElemType::boolean);
  if (whole && t.readable() && t.count <= kMaxContents) {
    v.contents.emplace();
    for (int64_t i = 0; i < t.count; ++i) v.contents->push_back(t.whole_at(i));
  }
  return v;
}

// The name of an input's dimension on the command line. "?", which some exporters write, is none: sizes
// that are called so may differ.
std::string size_name(const DeclaredValue& input, size_t axis) {
  const std::string& name = (*input.shape)[axis].name;
  return name.empty() || name == "?" ? fmt::format("{}.{}", input.name, axis) : name;
}

}  // namespace

std::optional<double> Value::scalar() const {
  if (real) return real;
  if (tensor == nullptr || tensor->count != 1 || !tensor->readable()) return std::nullopt;
  return tensor->at(0);
}

std::optional<size_t> taken_input(const Node& node, const Value& condition, size_t output) {
  const size_t outputs = node.outputs.size();
  const auto& known = condition.contents;
  const bool single = known && known->size() == 1 && (*known)[0].fixed();
  if (node.op != "If" || !node.domain.empty() || !single || node.inputs.size() != 1 + 2 * outputs) {
    return std::nullopt;
  }
  return 1 + output + ((*known)[0].number() != 0 ? outputs : 0);
}

Values::Values(const Model& model, const std::map<std::string, DimSize>& sizes,
               const StandIns& stand_ins)
    : extents_(stand_ins), given_(sizes) {
  declare_inputs(model, sizes);
  for (const auto& [name, tensor] : model.constants) values_[name] = value_of(tensor);
  for (const DeclaredValue& v : model.body_inputs) {
    values_[v.name].type = v.type;
    values_[v.name].shape = noted_shape(v);
  }
  for (const DeclaredValue& v : model.values) noted_[v.name] = &v;
  for (const DeclaredValue& v : model.outputs) noted_[v.name] = &v;
  std::map<std::string, std::pair<const Node*, const Node::Body*>> waiting;
  for (const Node& node : model.nodes) {
    for (const Node::Body& body : node.held) waiting[body.name] = {&node, &body};
    for (const std::string& output : node.outputs) producers_.emplace(output, &node);
  }
  for (const Node& node : model.nodes) {
    for (const std::string& name : node.bodies) {
      const auto body = waiting.find(name);
      if (body == waiting.end()) continue;
      enter(*body->second.first, *body->second.second);
      waiting.erase(body);
    }
    auto version = model.opsets.find(node.domain);
    infer(node, version == model.opsets.end() ? 1 : version->second);
  }
  require_known_names(model);
}

void Values::declare_inputs(const Model& model, const std::map<std::string, DimSize>& sizes) {
  std::vector<std::string> missing;
  std::set<std::string> known;
  for (const DeclaredValue& input : model.inputs) {
    for (size_t d = 0; input.shape && d < input.shape->size(); ++d) {
      if ((*input.shape)[d].number) continue;
      const std::string name = size_name(input, d);
      if (!known.insert(name).second) continue;
      auto given = sizes.find(name);
      if (given != sizes.end()) {
        named_.emplace(name, extents_.declare(name, given->second));
      } else {
        missing.push_back(fmt::format("{} ({}, axis {})", name, input.name, d));
      }
    }
  }
  if (!missing.empty()) {
    require_known_names(model);
    throw UsageError(fmt::format(
        "{}: the inputs have dimensions without sizes: {}; give each a size, such as "
        "--dim '{}=1', or a range, such as --dim '{}=1..512'",
        model.path, fmt::join(missing, ", "), missing[0].substr(0, missing[0].find(" (")),
        missing[0].substr(0, missing[0].find(" ("))));
  }
  for (const DeclaredValue& input : model.inputs) {
    Value v;
    v.type = input.type;
    if (input.shape) {
      v.shape.emplace();
      for (size_t d = 0; d < input.shape->size(); ++d) {
        const DeclaredSize& size = (*input.shape)[d];
        v.shape->push_back(size.number ? Extent(*size.number) : named_.at(size_name(input, d)));
      }
    }
    values_[input.name] = v;
  }
}

// The names of --dim: those of inputs, and those of sizes that a run calculates.
void Values::require_known_names(const Model& model) const {
  std::set<std::string> known;
  for (const DeclaredValue& input : model.inputs) {
    for (size_t d = 0; input.shape && d < input.shape->size(); ++d) {
      if (!(*input.shape)[d].number) known.insert(size_name(input, d));
    }
  }
  for (const auto& [name, size] : given_) {
    if (known.contains(name) || std::ranges::count(calculated_, name, &CalculatedSize::name) > 0) {
      continue;
    }
    throw UsageError(
        fmt::format("--dim {}={}: the inputs of {} have no dimension of that name; they have: {}",
                    name, to_string(SpecValue(size)), model.path,
                    known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
}

// What the inputs of a body are before its nodes are inferred: what the node that holds it was given.
void Values::enter(const Node& holder, const Node::Body& body) {
  const auto take = [&](size_t i, DataType type, const std::optional<Shape>& shape) {
    if (i >= body.inputs.size()) return;
    Value& own = values_[body.inputs[i]];
    if (type != DataType::Undefined) own.type = type;
    if (shape) own.shape = shape;
  };
  const auto given = [&](size_t i) -> const Value& {
    return at(i < holder.inputs.size() ? holder.inputs[i] : "");
  };
  if (holder.op == "Loop") {
    take(0, DataType::Int64, Shape{});
    take(1, DataType::Bool, Shape{});
    for (size_t i = 2; i < body.inputs.size(); ++i) take(i, given(i).type, given(i).shape);
  } else if (holder.op == "Scan") {
    const size_t scanned = static_cast<size_t>(holder.integer("num_scan_inputs", 0));
    for (size_t i = 0; i < body.inputs.size(); ++i) {
      std::optional<Shape> shape = given(i).shape;
      if (i + scanned >= body.inputs.size() && shape) {
        const size_t place = i + scanned - body.inputs.size();
        const auto axis = axis_of(scan_axis(holder, "scan_input_axes", place), shape->size());
        if (axis) shape->erase(shape->begin() + static_cast<int64_t>(*axis));
        if (!axis) shape.reset();
      }
      take(i, given(i).type, shape);
    }
  }
}

// The shape that the model notes for a value, where all its names are known.
std::optional<Shape> Values::noted_shape(const DeclaredValue& value) const {
  if (!value.shape) return std::nullopt;
  Shape shape;
  for (const DeclaredSize& size : *value.shape) {
    auto named = named_.find(size.name);
    if (size.number) {
      shape.emplace_back(*size.number);
    } else if (named != named_.end()) {
      shape.push_back(named->second);
    } else {
      return std::nullopt;
    }
  }
  return shape;
}

const Value& Values::at(const std::string& name) const {
  static const Value kUnknown;
  auto it = values_.find(name);
  return it == values_.end() ? kUnknown : it->second;
}

void Values::infer(const Node& node, int64_t opset) {
  Step step(node, opset, *this);
  const bool constant = std::all_of(node.inputs.begin(), node.inputs.end(), [&](const auto& name) {
    return name.empty() || at(name).constant;
  });
  if (const Attribute* value = node.op == "Constant" ? node.find("value") : nullptr;
      value != nullptr && value->t && !node.outputs.empty()) {
    values_[node.outputs[0]] = value_of(*value->t);
  } else if (const Rule* rule = find_rule(node.full_op())) {
    (*rule)(step);
  }
  const bool random = node.op.rfind("Random", 0) == 0 || node.op == "Bernoulli";
  for (const std::string& output : node.outputs) {
    if (output.empty()) continue;
    Value& v = values_[output];
    v.constant = v.constant || (constant && !random && node.op != "If");
    auto noted = noted_.find(output);
    if (noted == noted_.end()) continue;
    if (v.type == DataType::Undefined) v.type = noted->second->type;
    if (!v.shape) v.shape = noted_shape(*noted->second);
  }
}

const Value& Step::input(size_t i) const {
  static const std::string kNone;
  return values_.at(node.has_input(i) ? node.inputs[i] : kNone);
}

std::optional<std::vector<int64_t>> Step::numbers(size_t i) const {
  const std::optional<Shape>& contents = input(i).contents;
  if (!contents) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Extent& e : *contents) {
    if (!e.fixed()) return std::nullopt;
    numbers.push_back(e.number());
  }
  return numbers;
}

std::optional<std::vector<int64_t>> Step::numbers(const std::string& attribute, size_t i) const {
  std::optional<std::vector<int64_t>> own = node.integers(attribute);
  return own ? own : numbers(i);
}

void Step::set(size_t output, DataType type, std::optional<Shape> shape,
               std::optional<Shape> contents) {
  if (output >= node.outputs.size() || node.outputs[output].empty()) return;
  Value& v = values_.values_[node.outputs[output]];
  v.type = type;
  v.shape = std::move(shape);
  if (v.shape && v.shape->size() > kMaxAxes) v.shape.reset();
  // Contents that do not fill the shape come of a model that is not right.
  auto count = v.shape ? extents.product(*v.shape) : std::nullopt;
  const bool fits = contents && count && *count == Extent(static_cast<int64_t>(contents->size()));
  if (fits && count->number() <= kMaxContents) v.contents = std::move(contents);
}

void Step::set_real(double value) {
  set(0, DataType::Float, Shape{});
  if (!node.outputs.empty()) values_.values_[node.outputs[0]].real = value;
}

int64_t scan_axis(const Node& scan, const std::string& attribute, size_t place) {
  const auto axes = scan.integers(attribute);
  return axes && place < axes->size() ? (*axes)[place] : 0;
}

std::optional<size_t> axis_of(int64_t axis, size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (axis < -count || axis >= count) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + count : axis);
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const size_t first = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    const Extent &x = longer[first + d], &y = shorter[d];
    if (x == y || y == Extent(1)) continue;
    if (x != Extent(1) && x.fixed() && y.fixed()) return std::nullopt;
    // Of two that differ in name the model claims that they are equal; a number says more.
    out[first + d] = x == Extent(1) || y.fixed() ? y : x;
  }
  return out;
}

void Values::declare_made(const std::string& name, DataType type, Shape shape) {
  Value made;
  made.type = type;
  made.shape = std::move(shape);
  values_.insert_or_assign(name, std::move(made));
}

}  // namespace tilewright::onnx
