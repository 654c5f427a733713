// Reductions, normalizations of rows, attention.
#include <algorithm>

#include "models/onnx/step.h"

namespace tilewright::onnx {
namespace {

std::optional<Shape> reduced(Step& s, const std::optional<std::vector<int64_t>>& axes, bool kept) {
  const Shape& from = *s.shape(0);
  std::vector<bool> over(from.size(), !axes);
  for (int64_t a : axes.value_or(std::vector<int64_t>())) {
    auto axis = axis_of(a, from.size());
    if (!axis) return std::nullopt;
    over[*axis] = true;
  }
  Shape out;
  for (size_t d = 0; d < from.size(); ++d) {
    if (!over[d]) out.push_back(from[d]);
    if (over[d] && kept) out.emplace_back(1);
  }
  return out;
}

void reduce(Step& s) {
  if (!s.shape(0)) return s.set(0, s.type(), std::nullopt);
  auto axes = s.numbers("axes", 1);
  if (!axes && s.node.has_input(1)) return s.set(0, s.type(), std::nullopt);
  if (axes && axes->empty()) axes.reset();
  if (!axes && s.node.integer("noop_with_empty_axes", 0) != 0) return s.keep();
  std::optional<Shape> contents;
  if (s.node.op == "ReduceProd" && s.input(0).contents && s.shape(0)->size() <= 1) {
    if (auto all = s.extents.product(*s.input(0).contents)) contents = Shape{*all};
  }
  s.set(0, s.type(), reduced(s, axes, s.node.integer("keepdims", 1) != 0), contents);
}

void arg_reduce(Step& s) {
  if (!s.shape(0)) return;
  std::vector<int64_t> axis = {s.node.integer("axis", 0)};
  s.set(0, DataType::Int64, reduced(s, axis, s.node.integer("keepdims", 1) != 0));
}

// The sum of the two comes out last, in some versions third, in others fourth.
void skip_norm(Step& s) {
  s.keep();
  s.set(3, s.type(), s.shape(0));
}

// Statistics have one element for each row.
void layer_norm(Step& s) {
  s.keep();
  if (!s.shape(0)) return;
  const auto axis = axis_of(s.node.integer("axis", -1), s.shape(0)->size());
  if (!axis) return;
  Shape rows = *s.shape(0);
  for (size_t d = *axis; d < rows.size(); ++d) rows[d] = 1;
  s.set(1, DataType::Float, rows);
  s.set(2, DataType::Float, rows);
}

// Queries [batch, rows, hidden] or [batch, heads, rows, head]; values alike.
// Output 1 or 2 of attention: the keys or values of input 1 or 2 behind those of input 4 or 5, of com.microsoft's 6
// or 7.
void set_present(Step& s, size_t kept) {
  if (!s.shape(kept)) return;
  Shape all = *s.shape(kept);
  if (all.size() == 3) {
    const int64_t heads = s.node.integer("kv_num_heads", s.node.integer("num_heads", 0));
    const auto width = heads > 0 ? s.extents.quotient(all[2], heads) : std::nullopt;
    if (!width) return;
    all = {all[0], heads, all[1], *width};
  }
  const std::optional<Shape>& past = s.shape(kept + (s.node.domain.empty() ? 3 : 5));
  if (all.size() != 4 || (past && past->size() != 4)) return;
  const auto rows = past ? s.extents.plus((*past)[2], all[2]) : std::optional(all[2]);
  if (!rows) return;
  all[2] = *rows;
  s.set(kept, s.type(), all);
}

// Output 3 of attention: [batch, heads, queries, keys].
void set_scores(Step& s) {
  if (!s.node.domain.empty() || !s.shape(0) || !s.shape(1)) return;
  const Shape &q = *s.shape(0), &k = *s.shape(1);
  const bool flat = q.size() == 3;
  if (q.size() != k.size() || (!flat && q.size() != 4)) return;
  const Extent heads = flat ? Extent(s.node.integer("q_num_heads", 0)) : q[1];
  std::optional<Extent> keys = k[flat ? 1 : 2];
  if (s.shape(4) && s.shape(4)->size() == 4) keys = s.extents.plus((*s.shape(4))[2], *keys);
  if (keys) s.set(3, s.type(), Shape{q[0], heads, q[flat ? 1 : 2], *keys});
}

void attention(Step& s) {
  if (!s.shape(0)) return;
  Shape out = *s.shape(0);
  if (out.size() == 5) {  // [batch, rows, heads, 3, width]
    const auto columns = s.extents.times(out[2], out[4]);
    if (columns) s.set(0, s.type(), Shape{out[0], out[1], *columns});
    return;
  }
  if (!s.node.domain.empty() && s.shape(1) && s.shape(1)->size() == 5) return s.keep();
  const std::optional<Shape>& v = s.shape(2);
  if (v && v->size() == out.size() && out.size() == 4) out[3] = (*v)[3];
  if (v && v->size() == out.size() && out.size() == 3) {
    const int64_t heads = s.node.integer("q_num_heads", s.node.integer("num_heads", 0));
    const int64_t sources = s.node.integer("kv_num_heads", heads);
    auto head = sources > 0 ? s.extents.quotient((*v)[2], sources) : std::nullopt;
    auto all = head ? s.extents.times(*head, heads) : std::nullopt;
    if (all) out[2] = *all;
  }
  s.set(0, s.type(), out);
  for (size_t kept = 1; kept < 3; ++kept) set_present(s, kept);
  set_scores(s);
}

// Keys and values that are kept grow by the new rows. Without keys of their own, queries have them behind them.
void group_query_attention(Step& s) {
  if (!s.shape(0) || s.shape(0)->size() != 3) return;
  const int64_t heads = s.node.integer("num_heads", 0), own = s.node.integer("kv_num_heads", heads);
  Shape out = *s.shape(0);
  const bool packed = !s.node.has_input(1);
  if (heads < 1 || own < 1 || own > heads) return;
  const auto width = s.extents.quotient(out[2], packed ? heads + 2 * own : heads);
  const auto columns = width ? s.extents.times(*width, heads) : std::nullopt;
  if (!columns) return;
  out[2] = *columns;
  const std::optional<Shape>& past = s.shape(3);
  if (!s.node.has_input(3)) {
    for (size_t kept : {1, 2}) s.set(kept, s.type(), Shape{out[0], own, out[1], *width});
  }
  s.set(0, s.type(), out);
  if (!past || past->size() != 4) return;
  Shape present = *past;
  auto rows = s.extents.plus((*past)[2], (*s.shape(0))[1]);
  if (!rows) return;
  present[2] = *rows;
  s.set(1, s.type(), present);
  s.set(2, s.type(), present);
}

// Input [batch, rows, k] and weights [k, 3 hidden] in one.
void packed_attention(Step& s) {
  const DataType type = s.node.op == "QAttention" ? s.type(3) : s.type();
  if (!s.shape(0) || !s.shape(1) || s.shape(0)->size() != 3 || s.shape(1)->size() != 2) return;
  auto hidden = s.extents.quotient((*s.shape(1))[1], 3);
  if (!hidden || s.node.find("qkv_hidden_sizes") != nullptr) return;
  Shape out = *s.shape(0);
  out[2] = *hidden;
  s.set(0, type, out);
}

// Tokens [batch, rows] become rows of the table of words; the number of tokens of each sequence; their sums.
void embedding(Step& s) {
  if (!s.shape(0) || !s.shape(2) || s.shape(0)->size() != 2 || s.shape(2)->size() != 2) return;
  Shape out = *s.shape(0);
  out.push_back((*s.shape(2))[1]);
  s.set(0, s.type(2), out);
  s.set(1, DataType::Int32, Shape{out[0]});
  s.set(2, s.type(2), out);
}

Rules make_row_rules() {
  Rules rules = {{"ArgMax", arg_reduce},
                 {"ArgMin", arg_reduce},
                 {"LayerNormalization", layer_norm},
                 {"Attention", attention},
                 {"RotaryEmbedding", keep},
                 {"com.microsoft.RotaryEmbedding", keep},
                 {"com.microsoft.MultiHeadAttention", attention},
                 {"com.microsoft.GroupQueryAttention", group_query_attention},
                 {"com.microsoft.Attention", packed_attention},
                 {"com.microsoft.QAttention", packed_attention},
                 {"com.microsoft.EmbedLayerNormalization", embedding},
                 {"com.microsoft.SkipLayerNormalization", skip_norm},
                 {"com.microsoft.SkipSimplifiedLayerNormalization", skip_norm}};
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"}) {
    rules[op] = reduce;
  }
  for (const char* op :
       {"Softmax", "LogSoftmax", "RMSNormalization", "SimplifiedLayerNormalization"}) {
    rules[op] = keep;
  }
  return rules;
}

}  // namespace

const Rules& row_rules() {
  static const Rules kRules = make_row_rules();
  return kRules;
}

}  // namespace tilewright::onnx
