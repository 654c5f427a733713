#include "models/onnx/whole/index_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

std::vector<DimSize> dim_sizes(const Sizes& sizes) {
  std::vector<DimSize> dims;
  for (int64_t s : sizes) dims.push_back({s, s});
  return dims;
}

}  // namespace

Sizes sizes_of_value(const Mapping& m, const std::string& value) {
  Sizes sizes;
  for (const Extent& e : m.shape(value)) {
    if (e == Extent(0)) throw NotMapped(fmt::format("'{}' has no elements", value));
    sizes.push_back(m.number(e));
  }
  return sizes;
}

Factors factors_of(IndexExpr& e, const Mapping& m, const std::string& a, const std::string& b,
                   bool turned) {
  const Sizes left = sizes_of_value(m, a), right = sizes_of_value(m, b);
  if (left.size() < 2 || right.size() < 2) throw NotMapped("an operand has less than two axes");
  const size_t rank = e.sizes().size();
  const std::string k = e.reduced(left.back());
  auto element = [&](const std::string& value, const Sizes& sizes, const std::string& row,
                     const std::string& column) {
    std::vector<std::string> at;
    for (size_t d = 0; d + 2 < sizes.size(); ++d) {
      at.push_back(sizes[d] == 1 ? "0" : e.indices().at(rank - sizes.size() + d));
    }
    at.push_back(row);
    at.push_back(column);
    return e.made_at(value, sizes, m.elem(value), at);
  };
  const std::string &row = e.indices()[rank - 2], &column = e.indices()[rank - 1];
  std::string first = element(a, left, row, k);
  std::string second = turned ? element(b, right, column, k) : element(b, right, k, column);
  return {std::move(first), std::move(second), row, column};
}

std::string literal(double value) {
  if (!std::isfinite(value)) throw NotMapped("a number is infinite or none");
  return value < 0 ? fmt::format("(-{})", -value) : fmt::format("{}", value);
}

std::optional<Sizes> known_numbers(const Mapping& m, const Node& node, const std::string& attribute,
                                   size_t input) {
  if (auto own = node.integers(attribute)) return own;
  if (!node.has_input(input)) return std::nullopt;
  const std::optional<Shape>& contents = m.input(node, input).contents;
  if (!contents) throw NotMapped(fmt::format("its {} are calculated from values", attribute));
  Sizes numbers;
  for (const Extent& e : *contents) {
    if (!e.fixed()) throw NotMapped(fmt::format("its {} are calculated from sizes", attribute));
    numbers.push_back(e.number());
  }
  return numbers;
}

size_t checked_axis(int64_t axis, size_t rank) {
  auto found = axis_of(axis, rank);
  if (!found) throw NotMapped(fmt::format("axis {} is outside of {} axes", axis, rank));
  return *found;
}

IndexExpr::IndexExpr(const Mapping& m, const Node& node, const std::string& output,
                     const Sizes& sizes, ElemType type)
    : m_(m), node_(node), output_(output), sizes_(sizes), type_(type) {
  if (sizes_.empty()) sizes_ = {1};
  for (size_t d = 0; d < sizes_.size(); ++d) indices_.push_back(fmt::format("i{}", d));
}

IndexExpr::IndexExpr(const Mapping& m, const Node& node, size_t output)
    : IndexExpr(m, node, node.outputs.at(output), sizes_of_value(m, node.outputs.at(output)),
                m.elem(node.outputs.at(output))) {}

std::string IndexExpr::left(const std::string& name) const {
  return fmt::format("{}[{}]", name, fmt::join(indices_, ", "));
}

std::string IndexExpr::reduced(int64_t size) {
  reduced_.emplace_back(fmt::format("r{}", reduced_.size()), size);
  return reduced_.back().first;
}

std::string IndexExpr::operand(const std::string& value, const Sizes& sizes, ElemType type) {
  for (const Operand& o : operands_) {
    if (o.value == value) return o.name;
  }
  operands_.push_back({fmt::format("X{}", operands_.size()), value, sizes, type});
  return operands_.back().name;
}

std::string IndexExpr::at(const std::string& value, const std::vector<std::string>& indices) {
  const std::optional<double> number = m_.graph.value(value).scalar();
  if (number && std::isfinite(*number)) return literal(*number);
  return made_at(value, sizes_of_value(m_, value), m_.elem(value), indices);
}

std::string IndexExpr::made_at(const std::string& value, const Sizes& sizes, ElemType type,
                               const std::vector<std::string>& indices) {
  const std::string name = operand(value, sizes.empty() ? Sizes{1} : sizes, type);
  if (sizes.empty()) return name + "[0]";
  return fmt::format("{}[{}]", name, fmt::join(indices, ", "));
}

std::string IndexExpr::element(const std::string& value) {
  const Sizes sizes = sizes_of_value(m_, value);
  if (sizes.size() > sizes_.size()) throw NotMapped("an operand has more axes than the result");
  const size_t first = sizes_.size() - sizes.size();
  std::vector<std::string> at_indices;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && sizes[d] != sizes_[first + d]) {
      throw NotMapped("the sizes of an operand and of the result differ");
    }
    at_indices.push_back(sizes[d] == 1 ? "0" : indices_[first + d]);
  }
  return at(value, at_indices);
}

std::string IndexExpr::table(const std::string& what, ElemType type,
                             const std::vector<double>& values, const std::string& index) {
  return constant(what, type, {static_cast<int64_t>(values.size())}, values, {index});
}

std::string IndexExpr::constant(const std::string& what, ElemType type, const Sizes& sizes,
                                const std::vector<double>& values,
                                const std::vector<std::string>& indices) {
  const std::string name = fmt::format("{}/{}", output_, what);
  made_.push_back({name, type, sizes, values});
  return made_at(name, sizes, type, indices);
}

Draft IndexExpr::finish(const std::string& statements) const {
  Draft d = m_.draft("expr", node_);
  d.layer.output = output_;
  d.layer.made = made_;
  d.spec.text("expr", statements);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    d.spec.size("dims." + indices_[i], {sizes_[i], sizes_[i]});
  }
  for (const auto& [name, size] : reduced_) d.spec.size("dims." + name, {size, size});
  bool whole = !is_float(type_), wide = type_ == ElemType::f64;
  for (const Operand& o : operands_) {
    whole = whole && !is_float(o.type);
    wide = wide || o.type == ElemType::f64;
  }
  const ElemType usual = whole ? ElemType::i64 : wide ? ElemType::f64 : ElemType::f32;
  const ElemType acc = acc_.value_or(usual);
  if (acc != ElemType::f32) {
    d.spec.text("dtype", to_string(acc)).text("acc", to_string(acc));
  }
  for (const Operand& o : operands_) {
    d.spec.text("dtypes." + o.name, to_string(o.type));
    d.spec.sizes("shapes." + o.name, dim_sizes(o.sizes));
    d.layer.operands[o.name] = o.value;
  }
  for (const auto& [tensor, type] : types_) d.spec.text("dtypes." + tensor, to_string(type));
  std::vector<std::string> weights;
  for (const Operand& o : operands_) {
    if (std::ranges::count(weights_, o.value) > 0) weights.push_back(o.name);
  }
  if (!weights.empty()) d.spec.texts("weights", weights);
  d.spec.text("out", to_string(type_));
  return d;
}

}  // namespace tilewright::onnx
