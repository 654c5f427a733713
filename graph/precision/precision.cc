#include "graph/precision/precision.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "graph/interpret.h"
#include "graph/precision/narrow.h"
#include "models/weights/quantize.h"
#include "runtime/error.h"

namespace tilewright::graph {
namespace {

[[noreturn]] void refuse_precision(const std::string& text, const std::string& why) {
  throw UsageError(fmt::format(
      "'{}': {}; expected f32, bf16, i8, or a type of weights with the terms that share a scale, "
      "such as u4:128, i4:64, i8:-1 (whole columns) or u4:128:i8 (activations of i8)",
      text, why));
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

WeightForm weight_form(const std::string& text, const std::vector<std::string>& parts) {
  WeightForm form;
  const auto type = parse_elem_type(parts[0]);
  if (!type || !weights::can_quantize(*type)) {
    refuse_precision(text, fmt::format("no weights are stored as {}", parts[0]));
  }
  form.type = *type;
  const char* end = parts[1].data() + parts[1].size();
  const auto read = std::from_chars(parts[1].data(), end, form.group);
  if (read.ec != std::errc() || read.ptr != end || form.group == 0 || form.group < -1) {
    refuse_precision(text, fmt::format("'{}' is no number of terms", parts[1]));
  }
  if (parts.size() > 3) refuse_precision(text, "something follows");
  if (parts.size() == 3 && parts[2] != "i8") {
    refuse_precision(text, fmt::format("activations of '{}' are not known", parts[2]));
  }
  form.byte_activations = parts.size() == 3;
  if (form.byte_activations && !is_integer(form.type)) {
    refuse_precision(text, "activations of i8 meet weights of integers");
  }
  return form;
}

}  // namespace

Precision Precision::parse(const std::string& text) {
  Precision p;
  p.text = text;
  const std::vector<std::string> parts = parts_of(text);
  if (parts.size() > 1) {
    p.weights = weight_form(text, parts);
  } else if (text == "bf16" || text == "i8" || text == "f32") {
    p.factors = *parse_elem_type(text);
  } else {
    refuse_precision(text, "no such precision");
  }
  return p;
}

double Precision::tolerance() const {
  if (weights) return bits_of(weights->type) < 8 ? 0.3 : 0.05;
  return factors == ElemType::i8 ? 0.05 : 0.03;
}

Changed apply(Graph* graph, const Precision& precision, const Ranges* ranges, const Kept& kept,
              const Oracle::ParallelFn& parallel) {
  Changed changed;
  if (precision.weights) {
    changed = group_products(graph, *precision.weights, kept);
  } else if (precision.factors == ElemType::i8) {
    changed = encode_products(graph, ranges, kept);
  } else if (precision.factors != ElemType::f32) {
    changed = narrow_products(graph, precision.factors, kept);
  }
  fold_constants(graph, parallel);
  return changed;
}

}  // namespace tilewright::graph
