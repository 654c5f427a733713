// Attention in one node, as the products and rows that it consists of.
#include <fmt/format.h>

#include "models/onnx/mapping.h"

namespace tilewright::onnx {
namespace {

// Rows of queries meet columns of keys, for each of `batch` times `heads`.
struct Heads {
  Extent batch = 1, rows = 1, columns = 1;
  int64_t heads = 0, sources = 0;  // of queries, and of keys and values
  Extent head = 1, value_head = 1;
};

Extent divided(const Mapping& m, const Extent& all, int64_t parts, const char* what) {
  if (parts < 1) throw NotMapped("it does not say how many heads there are");
  auto part = m.extents().quotient(all, parts);
  if (!part || m.extents().times(*part, parts) != all) {
    throw NotMapped(
        fmt::format("{} {} are not shared evenly by {} heads", all.text(), what, parts));
  }
  return *part;
}

Extent sum(const Mapping& m, const Extent& a, const Extent& b) {
  auto both = m.extents().plus(a, b);
  if (!both) throw NotMapped("the number of keys overflows");
  return *both;
}

Extent product(const Mapping& m, const Shape& sizes) {
  auto all = m.extents().product(sizes);
  if (!all) throw NotMapped("the number of elements overflows");
  return *all;
}

// Queries that share keys and values are rows of one product.
Mapped pieces(const Mapping& m, const Node& node, const Heads& h) {
  if (h.sources < 1 || h.heads % h.sources != 0) {
    throw NotMapped(fmt::format("{} heads do not share {} evenly", h.heads, h.sources));
  }
  const ElemType type = m.elem(node.inputs.at(0));
  const DimSize batch = m.size(product(m, {h.batch, h.sources}));
  const DimSize rows = m.size(product(m, {h.rows, h.heads / h.sources}));
  const std::string note = "a part of attention: masks and scales are applied besides";
  Draft scores = m.draft("matmul", node), weights = m.draft("softmax", node),
        values = m.draft("matmul", node);
  scores.spec.size("m", rows).size("n", m.size(h.columns)).size("k", m.size(h.head));
  scores.spec.size("batch", batch).flag("trans_b");
  weights.spec.size("m", m.size(product(m, {h.batch, h.heads, h.rows})));
  weights.spec.size("n", m.size(h.columns));
  values.spec.size("m", rows).size("n", m.size(h.value_head)).size("k", m.size(h.columns));
  values.spec.size("batch", batch);
  Mapped all = {scores, weights, values};
  for (Draft& d : all) {
    m.add_type(&d, type);
    d.layer.note = note;
    d.layer.output.clear();
  }
  return all;
}

// The sizes of queries, keys and values with heads in an axis of their own, or side by side.
Mapped map_attention(const Mapping& m, const Node& node) {
  const Shape& q = m.shape(node, 0);
  Heads h;
  h.heads = node.integer("q_num_heads", node.integer("num_heads", 0));
  h.sources = node.integer("kv_num_heads", h.heads);
  if (!node.has_input(1) || !node.has_input(2)) {
    throw NotMapped("queries, keys and values are packed into one");
  }
  const Shape &k = m.shape(node, 1), &v = m.shape(node, 2);
  if (q.size() != k.size() || k.size() != v.size() || (q.size() != 3 && q.size() != 4)) {
    throw NotMapped("expected queries, keys and values of 3 or 4 axes each");
  }
  h.batch = q[0];
  if (q.size() == 4) {  // [batch, heads, rows, head]
    h.heads = m.fixed_size(q[1], "the heads");
    h.sources = m.fixed_size(k[1], "the heads");
    h.rows = q[2];
    h.columns = k[2];
    h.head = q[3];
    h.value_head = v[3];
  } else {
    h.rows = q[1];
    h.columns = k[1];
    h.head = divided(m, q[2], h.heads, "columns of the queries");
    h.value_head = divided(m, v[2], h.sources, "columns of the values");
  }
  const size_t past = node.domain.empty() ? 4 : 6;
  if (node.has_input(past)) h.columns = sum(m, h.columns, m.shape(node, past).at(2));
  return pieces(m, node, h);
}

// Keys and values of earlier rows stand in [batch, heads, rows, head] and grow.
Mapped map_group_query(const Mapping& m, const Node& node) {
  const Shape& q = m.shape(node, 0);
  if (q.size() != 3) throw NotMapped("expected queries of 3 axes");
  Heads h;
  h.heads = node.integer("num_heads", 0);
  h.sources = node.integer("kv_num_heads", h.heads);
  h.batch = q[0];
  h.rows = h.columns = q[1];
  const bool packed = !node.has_input(1);
  h.head = divided(m, q[2], packed ? h.heads + 2 * h.sources : h.heads, "columns of the queries");
  h.value_head = h.head;
  if (node.has_input(3)) h.columns = sum(m, h.columns, m.shape(node, 3).at(2));
  return pieces(m, node, h);
}

// The product with the weights of queries, keys and values comes first.
Mapped map_packed(const Mapping& m, const Node& node) {
  const Shape &x = m.shape(node, 0), &w = m.shape(node, 1);
  if (x.size() != 3 || w.size() != 2)
    throw NotMapped("expected an input of 3 axes and weights of 2");
  if (node.find("qkv_hidden_sizes") != nullptr) throw NotMapped("its hidden sizes differ");
  Draft all = matrix_product(m, node, node.inputs[0], node.inputs[1], false, false);
  m.add_type(&all, m.elem(node.inputs[0]));
  if (node.has_input(2)) {
    all.spec.texts("epilogue", {"bias"});
    all.layer.operands["bias"] = node.inputs[2];
  }
  all.layer.output.clear();
  Heads h;
  h.heads = h.sources = node.integer("num_heads", 0);
  h.batch = x[0];
  h.rows = h.columns = x[1];
  h.head = divided(m, divided(m, w[1], 3, "columns of the weights"), h.heads, "columns");
  h.value_head = h.head;
  if (node.has_input(4)) h.columns = sum(m, h.columns, m.shape(node, 4).at(3));
  Mapped out = pieces(m, node, h);
  out.insert(out.begin(), all);
  return out;
}

}  // namespace

const MapFns& attention_mappings() {
  static const MapFns kMappings = {{"Attention", map_attention},
                                   {"com.microsoft.MultiHeadAttention", map_attention},
                                   {"com.microsoft.GroupQueryAttention", map_group_query},
                                   {"com.microsoft.Attention", map_packed}};
  return kMappings;
}

}  // namespace tilewright::onnx
