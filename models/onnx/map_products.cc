// Matrix products.
#include <fmt/format.h>

#include "models/onnx/mapping.h"
#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

// The value of which `value` is the last two axes exchanged, if nothing else takes it.
std::optional<std::string> untransposed(const Mapping& m, const std::string& value) {
  const Node* node = m.graph.producer(value);
  if (node == nullptr || node->op != "Transpose" || m.graph.only_user(value) == nullptr) {
    return std::nullopt;
  }
  const std::vector<int64_t> order = node->integers("perm").value_or(std::vector<int64_t>{1, 0});
  const auto rank = static_cast<int64_t>(order.size());
  if (rank < 2 || m.shape(value).size() != order.size()) return std::nullopt;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t from = d < rank - 2 ? d : 2 * rank - 3 - d;
    if (order[static_cast<size_t>(d)] != from) return std::nullopt;
  }
  return node->inputs[0];
}

// Looks through a transposition of an operand, which the product can do itself.
void look_through(const Mapping& m, std::string* value, bool* transposed, Layer* layer) {
  auto from = untransposed(m, *value);
  if (!from) return;
  layer->nodes.push_back(m.graph.producer(*value));
  *value = *from;
  *transposed = !*transposed;
}

void note_factor(Draft* d, const Node& node, const char* name, const char* value) {
  const double factor = node.real(name, 1);
  if (factor == 1) return;
  if (!d->layer.note.empty()) d->layer.note += "; ";
  d->layer.note += fmt::format("{} is multiplied by {} = {} before", value, name, factor);
}

size_t last_axis(const Mapping& m, const Draft& d) { return m.shape(d.layer.output).size() - 1; }

Mapped map_matmul(const Mapping& m, const Node& node) {
  const bool fused = node.op == "FusedMatMul";
  if (fused && (node.integer("transBatchA", 0) != 0 || node.integer("transBatchB", 0) != 0)) {
    throw NotMapped("it transposes the batch axes too");
  }
  Draft d = matrix_product(m, node, node.inputs.at(0), node.inputs.at(1),
                           fused && node.integer("transA", 0) != 0,
                           fused && node.integer("transB", 0) != 0);
  if (fused) note_factor(&d, node, "alpha", "A");
  m.add_type(&d, m.elem(node.inputs[0]));
  const bool column = m.shape(node, 1).size() == 1;
  if (!column && !m.shape(d.layer.output).empty()) m.fuse(&d, last_axis(m, d));
  return {d};
}

Mapped map_gemm(const Mapping& m, const Node& node) {
  Draft d = matrix_product(m, node, node.inputs.at(0), node.inputs.at(1),
                           node.integer("transA", 0) != 0, node.integer("transB", 0) != 0);
  note_factor(&d, node, "alpha", "A");
  m.add_type(&d, m.elem(node.inputs[0]));
  std::vector<std::string> steps;
  if (node.has_input(2)) {
    const Shape& added = m.shape(node, 2);
    const Shape& out = m.shape(d.layer.output);
    const bool row = !added.empty() && added.size() <= 2 && added.back() == out.back() &&
                     (added.size() == 1 || added[0] == Extent(1));
    if (row && m.input(node, 2).constant) {
      steps.emplace_back("bias");
      d.layer.operands["bias"] = node.inputs[2];
    } else if (added == out) {
      steps.emplace_back("add");
      d.layer.operands["D"] = node.inputs[2];
    } else {
      throw NotMapped("C is neither a constant row nor of the shape of the result");
    }
    note_factor(&d, node, "beta", "C");
  }
  const std::string activation = node.text("activation", "");
  if (activation == "Relu") {
    steps.emplace_back("relu");
  } else if (!activation.empty()) {
    throw NotMapped(fmt::format("its activation is {}; expected Relu", activation));
  }
  m.fuse(&d, 1, steps);
  return {d};
}

}  // namespace

Draft matrix_product(const Mapping& m, const Node& node, const std::string& a_name,
                     const std::string& b_name, bool trans_a, bool trans_b) {
  Draft d = m.draft("matmul", node);
  std::string a_value = a_name, b_value = b_name;
  Shape a = m.shape(a_value), b = m.shape(b_value);
  if (a.empty() || b.empty()) throw NotMapped("an operand has no axes");
  const bool shared = b.size() <= 2;  // by all batches of A
  if (a.size() >= 2 && !(shared && a.size() > 2)) {
    look_through(m, &a_value, &trans_a, &d.layer);
    a = m.shape(a_value);
  }
  if (b.size() >= 2) {
    look_through(m, &b_value, &trans_b, &d.layer);
    b = m.shape(b_value);
  }
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.emplace_back(1);
  const size_t ra = a.size(), rb = b.size();
  if (trans_a) std::swap(a[ra - 1], a[ra - 2]);
  if (trans_b) std::swap(b[rb - 1], b[rb - 2]);
  if (a[ra - 1] != b[rb - 2] && a[ra - 1].fixed() && b[rb - 2].fixed()) {
    throw NotMapped(
        fmt::format("rows of {} meet columns of {}", a[ra - 1].text(), b[rb - 2].text()));
  }
  const std::optional<Extent> batch_b = m.extents().product(b, 0, rb - 2);
  if (!batch_b) throw NotMapped("the number of elements overflows");
  DimSize batch{1, 1}, rows{1, 1};
  if (*batch_b == Extent(1)) {
    if (trans_a && ra > 2) throw NotMapped("batches of a transposed A share B");
    rows = m.product(a, 0, ra - 1);
  } else {
    if (Shape(a.begin(), a.end() - 2) != Shape(b.begin(), b.end() - 2)) {
      throw NotMapped("the batches of A and B differ: one is broadcast over the other");
    }
    batch = m.size(*batch_b);
    rows = m.size(a[ra - 2]);
  }
  d.spec.size("m", rows).size("n", m.size(b[rb - 1])).size("k", m.size(b[rb - 2]));
  if (batch != DimSize{1, 1}) d.spec.size("batch", batch);
  if (trans_a) d.spec.flag("trans_a");
  if (trans_b) d.spec.flag("trans_b");
  d.layer.operands = {{"A", a_value}, {"B", b_value}};
  const size_t k_axis = trans_b ? rb - 1 : rb - 2;
  add_stored_weight(m, &d, "B", k_axis, trans_b ? rb - 2 : rb - 1);
  if (!m.graph.value(b_value).constant) d.layer.note = kPackedEachRun;
  return d;
}

const MapFns& product_mappings() {
  static const MapFns kMappings = {{"MatMul", map_matmul},
                                   {"com.microsoft.FusedMatMul", map_matmul},
                                   {"Gemm", map_gemm},
                                   {"com.microsoft.FusedGemm", map_gemm}};
  return kMappings;
}

}  // namespace tilewright::onnx
