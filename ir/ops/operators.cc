#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/builders.h"
#include "ir/ops/operator.h"

namespace tilewright {
namespace {

struct ValueText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return fmt::format("{}", v); }
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(const DimSize& v) const {
    return v.is_dynamic() ? fmt::format("{}..{}", v.min, v.max) : std::to_string(v.min);
  }
  // One extent for all axes, or one per axis.
  std::string operator()(const std::vector<int64_t>& v) const {
    return v.size() == 1 ? std::to_string(v[0]) : fmt::format("[{}]", fmt::join(v, ","));
  }
  std::string operator()(const std::vector<DimSize>& v) const {
    std::vector<std::string> parts;
    for (const DimSize& d : v) parts.push_back((*this)(d));
    return fmt::format("[{}]", fmt::join(parts, ","));
  }
  std::string operator()(const std::vector<std::string>& v) const {
    return fmt::format("[{}]", fmt::join(v, ","));
  }
};

}  // namespace

std::string to_string(const SpecValue& value) { return std::visit(ValueText(), value); }

const KeyDef* Operator::find_key(const std::string& dotted) const {
  for (const KeyDef& key : keys) {
    if (!key.is_map() && key.name == dotted) return &key;
    bool inside = key.is_map() && dotted.size() > key.name.size() + 1 &&
                  dotted.compare(0, key.name.size() + 1, key.name + ".") == 0;
    if (inside) return &key;
  }
  return nullptr;
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> kTable = ops::join_operators(
      {ops::matmul_operators(), ops::grouped_matmul_operators(), ops::gated_mlp_operators(),
       ops::convolution_operators(), ops::normalization_operators(), ops::attention_operators(),
       ops::reduction_operators(), ops::elementwise_operators(), ops::gather_operators(),
       ops::expr_operators()});
  return kTable;
}

const Operator* find_operator(const std::string& name) {
  const auto& table = operators();
  auto it =
      std::find_if(table.begin(), table.end(), [&](const Operator& op) { return op.name == name; });
  return it == table.end() ? nullptr : &*it;
}

namespace ops {

std::vector<Operator> join_operators(std::vector<std::vector<Operator>> lists) {
  std::vector<Operator> all;
  for (auto& list : lists) {
    for (Operator& op : list) all.push_back(std::move(op));
  }
  return all;
}

}  // namespace ops
}  // namespace tilewright
