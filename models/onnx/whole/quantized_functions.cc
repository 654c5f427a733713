// Expressions of whole models: functions of codes that are no products, of the domain com.microsoft.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "models/onnx/whole/codes.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

Mapped express_codes_combined(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  const std::string a = real_of(e, m, node, 0, e.element(node.inputs.at(0)));
  const std::string b = real_of(e, m, node, 3, e.element(node.inputs.at(3)));
  const std::string both =
      node.op == "QLinearAdd" ? fmt::format("({} + {})", a, b) : fmt::format("({}) * ({})", a, b);
  return {e.finish(fmt::format("{} = {}", e.left(), code_of(e, m, node, both, 6, 7, "0")))};
}

// The mean of each channel's codes. Sums have the channels as their last axis, along which vectors run.
Mapped express_codes_mean(const Mapping& m, const Node& node) {
  if (node.integer("channels_last", 0) != 0) throw NotMapped("its channels come last");
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  if (sizes.size() < 3) throw NotMapped("its operand is no map");
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  e.give_type("S", ElemType::i32);
  std::vector<std::string> at = {"i0", "i1"};
  int64_t count = 1;
  for (size_t d = 2; d < sizes.size(); ++d) {
    at.push_back(e.reduced(sizes[d]));
    count *= sizes[d];
  }
  const std::string sums = fmt::format("S[i0, i1] += {}", e.at(x, at));
  const std::string mean = fmt::format("S[i0, i1] / {}", count);
  const std::string real = real_of(e, m, node, 0, mean);
  return {
      e.finish(fmt::format("{}; {} = {}", sums, e.left(), code_of(e, m, node, real, 3, 4, "0")))};
}

Mapped express_codes_softmax(const Mapping& m, const Node& node) {
  IndexExpr e(m, node);
  e.accumulate(ElemType::f32);
  const std::string& x = node.inputs.at(0);
  const Sizes sizes = sizes_of_value(m, x);
  const bool old = node.integer("opset", 13) < 13;
  const size_t axis = checked_axis(node.integer("axis", old ? 1 : -1), sizes.size());
  if (axis + 1 != sizes.size()) throw NotMapped("it normalizes along another axis than the last");
  std::vector<std::string> row(e.indices().begin(), e.indices().end() - 1), other = row;
  other.push_back(e.reduced(sizes.back()));
  const std::string scale = parameter_at(e, m, node.inputs.at(1), "0");
  const std::string all = fmt::format("{}", fmt::join(row, ", "));
  const std::string power = e.left("E");
  const std::string before =
      fmt::format("M[{0}] max= {1}; {2} = exp(({3} - M[{0}]) * {4}); S[{0}] += E[{5}]", all,
                  e.at(x, other), power, e.element(x), scale, fmt::join(other, ", "));
  const std::string share = fmt::format("{} / S[{}]", power, all);
  return {e.finish(
      fmt::format("{}; {} = {}", before, e.left(), code_of(e, m, node, share, 3, 4, "0")))};
}

}  // namespace

const MapFns& whole_code_mappings() {
  static const MapFns kMappings = {{"com.microsoft.QLinearAdd", express_codes_combined},
                                   {"com.microsoft.QLinearMul", express_codes_combined},
                                   {"com.microsoft.QLinearGlobalAveragePool", express_codes_mean},
                                   {"com.microsoft.QLinearSoftmax", express_codes_softmax}};
  return kMappings;
}

}  // namespace tilewright::onnx
