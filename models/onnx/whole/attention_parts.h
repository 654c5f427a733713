// Layers of attention that operators of all domains share.
#pragma once

#include <string>

#include "models/onnx/whole/index_expr.h"

namespace tilewright::onnx {

using Places = std::vector<std::string>;

inline constexpr const char* kNoWeight = "(-3.4028234663852886e+38)";  // a score without weight

// Queries, keys or values: [batch, heads, rows, width]; [batch, rows, columns], of which they are those from
// `first` on; or [batch, rows, heads, parts, width].
struct Projection {
  std::string value;
  Sizes stored;
  int64_t heads = 1, rows = 1, width = 1;
  ElemType type = ElemType::f32;
  int64_t first = 0;
  int64_t part = 0;

  // The element, of which `head` is an index.
  std::string at(IndexExpr& e, const std::string& batch, const std::string& head,
                 const std::string& row, const std::string& column) const;
};

// `rest` behind the rows of an earlier run in one tensor, where there are some or where the model wants it.
Projection with_past(const Mapping& m, const Node& node, const Projection& rest, size_t past,
                     size_t present, const std::string& name, Mapped* drafts);
// The element of a tensor for a batch, a head, a query and a key, by those axes that it has, aligned on the right. `what`
// names the tensor in a refusal.
std::string aligned_at(IndexExpr& e, const Mapping& m, const std::string& value,
                       const Places& places, const char* what);
// The text of a score within the node's soft cap.
std::string capped(const Node& node, const std::string& score);
// The head of keys or values that a head of queries meets: neighbouring ones share it.
std::string source_of(const Projection& queries, const Projection& source, const std::string& head);
// Weights of scores of these sizes.
Draft softmax_of(const Mapping& m, const Node& node, const std::string& scores, const Sizes& sizes,
                 const std::string& output);
// [batch, heads, queries, width]
Draft values_of(const Mapping& m, const Node& node, const std::string& weights, const Projection& q,
                const Projection& v, const std::string& output, ElemType type);

}  // namespace tilewright::onnx
