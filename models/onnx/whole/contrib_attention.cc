// Attention of the domain com.microsoft, as layers of whole models.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "models/onnx/whole/attention_parts.h"
#include "models/onnx/whole/codes.h"
#include "models/onnx/whole/integer_sums.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// Gives the text of a score behind its masks, at its places: batch, head, query, key.
using Masking = std::function<std::string(IndexExpr&, const Places&, const std::string&)>;

// The layers in which `graph/attention.h` finds attention, and the heads side by side.
void attend(const Mapping& m, const Node& node, const Projection& q, const Projection& k,
            const Projection& v, const Masking& masked, Mapped* drafts) {
  if (k.heads < 1 || k.heads != v.heads || q.heads % k.heads != 0 || k.rows != v.rows) {
    throw NotMapped(fmt::format("{} heads of queries do not share {} of keys", q.heads, k.heads));
  }
  const std::string& name = node.outputs.at(0);
  const Sizes scores = {q.stored[0], q.heads, q.rows, k.rows};
  IndexExpr e(m, node, name + "/scores", scores, ElemType::f32);
  const Places i = e.indices();
  const std::string r = e.reduced(q.width);
  const std::string products = fmt::format("{} * {}", q.at(e, i[0], i[1], i[2], r),
                                           k.at(e, i[0], source_of(q, k, i[1]), i[3], r));
  const double given = node.real("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(q.width)) : given;
  std::string score = fmt::format("{} * {}", e.left("S"), literal(scale));
  score = masked(e, i, capped(node, score));
  drafts->push_back(
      e.finish(fmt::format("{} += {}; {} = {}", e.left("S"), products, e.left(), score)));
  drafts->push_back(softmax_of(m, node, name + "/scores", scores, name + "/weights"));
  drafts->push_back(values_of(m, node, name + "/weights", q, v, name + "/heads", q.type));
  drafts->push_back(reordered(m, node, name + "/heads", {scores[0], q.heads, q.rows, v.width},
                              q.type, {0, 2, 1, 3}, name));
}

constexpr const char* kAdded = "the tensor that it adds to scores";

// The test whether a key counts, by a mask of keys: [batch] lengths, or flags [batch, keys], [batch, queries, keys].
std::string counts(IndexExpr& e, const Mapping& m, const std::string& mask, const Places& i,
                   int64_t batch) {
  const Sizes sizes = sizes_of_value(m, mask);
  if (sizes.size() == 1 && sizes[0] == batch) {
    return fmt::format("{} < {}", i[3], e.at(mask, {i[0]}));
  }
  if (sizes.size() == 2) return fmt::format("{} != 0", e.at(mask, {i[0], i[3]}));
  if (sizes.size() == 3) return fmt::format("{} != 0", e.at(mask, {i[0], i[2], i[3]}));
  throw NotMapped("its mask has other axes than [batch], [batch, keys] or [batch, queries, keys]");
}

// Keys that do not count, those behind the query where it sees none of them, and what is added to scores.
Masking masking(const Mapping& m, const Node& node, size_t mask, size_t added, int64_t batch,
                int64_t past) {
  return [&m, &node, mask, added, batch, past](IndexExpr& e, const Places& i,
                                               const std::string& score) {
    std::string text = score;
    if (node.has_input(added)) text += " + " + aligned_at(e, m, node.inputs[added], i, kAdded);
    if (node.has_input(mask)) {
      text = fmt::format("{} + select({}, 0, {})", text, counts(e, m, node.inputs[mask], i, batch),
                         literal(node.real("mask_filter_value", -10000)));
    }
    if (node.integer("unidirectional", 0) == 0) return text;
    return fmt::format("select({} <= {} + {}, {}, {})", i[3], i[2], past, text, kNoWeight);
  };
}

// The projection plus its part of a row of all biases, as heads.
Projection with_bias(const Mapping& m, const Node& node, const Projection& p, size_t input,
                     int64_t first, const char* part, Mapped* drafts) {
  if (!node.has_input(input)) return p;
  Projection made = p;
  made.value = fmt::format("{}/{}", node.outputs.at(0), part);
  made.stored = {p.stored[0], p.heads, p.rows, p.width};
  IndexExpr e(m, node, made.value, made.stored, p.type);
  const Places& i = e.indices();
  const std::string bias =
      e.at(node.inputs[input], {fmt::format("{} + {} * {} + {}", first, i[1], p.width, i[3])});
  drafts->push_back(
      e.finish(fmt::format("{} = {} + {}", e.left(), p.at(e, i[0], i[1], i[2], i[3]), bias)));
  return made;
}

// The heads of a value [batch, rows, columns], of which `columns` from `first` on are shared by `heads`.
Projection heads_in(const std::string& value, const Sizes& stored, int64_t heads, int64_t first,
                    int64_t columns, ElemType type) {
  if (stored.size() != 3 || heads < 1 || columns < heads || columns % heads != 0) {
    throw NotMapped(
        fmt::format("{} columns of '{}' are not shared evenly by {} heads", columns, value, heads));
  }
  return {value, stored, heads, stored[1], columns / heads, type, first, 0};
}

// An input of attention with several: [batch, rows, columns], [batch, heads, rows, width], or the part of one that
// holds several, [batch, rows, heads, parts, width].
Projection input_heads(const Mapping& m, const std::string& value, int64_t heads, int64_t part) {
  const Sizes s = sizes_of_value(m, value);
  const ElemType type = m.elem(value);
  if (s.size() == 4) return {value, s, s[1], s[2], s[3], type};
  if (s.size() == 5) return {value, s, s[2], s[1], s[4], type, 0, part};
  return heads_in(value, s, heads, 0, s.empty() ? 0 : s.back(), type);
}

Mapped express_multi_head(const Mapping& m, const Node& node) {
  const int64_t heads = node.integer("num_heads", 0);
  const bool keys_packed = !node.has_input(2), packed = keys_packed && !node.has_input(1);
  const std::string &query = node.inputs.at(0), &key = packed ? query : node.inputs.at(1);
  const std::string& value = keys_packed ? key : node.inputs[2];
  Mapped drafts;
  Projection q = input_heads(m, query, heads, 0), k = input_heads(m, key, heads, packed ? 1 : 0),
             v = input_heads(m, value, heads,
                             packed        ? 2
                             : keys_packed ? 1
                                           : 0);
  const int64_t columns = q.heads * q.width;
  q = with_bias(m, node, q, 3, 0, "q", &drafts);
  k = with_bias(m, node, k, 3, columns, "k", &drafts);
  v = with_bias(m, node, v, 3, columns + k.heads * k.width, "v", &drafts);
  const int64_t own = k.rows;
  k = with_past(m, node, k, 6, 1, node.outputs[0] + "/keys", &drafts);
  v = with_past(m, node, v, 7, 2, node.outputs[0] + "/values", &drafts);
  attend(m, node, q, k, v, masking(m, node, 4, 5, q.stored[0], k.rows - own), &drafts);
  return drafts;
}

// Attention over the columns of one product, three parts side by side.
void attend_packed(const Mapping& m, const Node& node, const std::string& all, const Sizes& sizes,
                   ElemType type, size_t mask, size_t past, size_t added, Mapped* drafts) {
  const int64_t heads = node.integer("num_heads", 0), columns = sizes[2] / 3;
  if (node.find("qkv_hidden_sizes") != nullptr) throw NotMapped("its hidden sizes differ");
  if (node.integer("do_rotary", 0) != 0) throw NotMapped("it turns rotary positions itself");
  if (node.has_input(past) || (node.outputs.size() > 1 && !node.outputs[1].empty())) {
    throw NotMapped("it keeps keys and values of earlier runs in one tensor");
  }
  const auto part = [&](int64_t first) {
    return heads_in(all, sizes, heads, first * columns, columns, type);
  };
  attend(m, node, part(0), part(1), part(2), masking(m, node, mask, added, sizes[0], 0), drafts);
}

Sizes packed_sizes(const Mapping& m, const Node& node) {
  const Sizes x = sizes_of_value(m, node.inputs.at(0)), w = sizes_of_value(m, node.inputs.at(1));
  if (x.size() != 3 || w.size() != 2 || w[1] % 3 != 0) {
    throw NotMapped("expected an input of 3 axes and weights of 2, for 3 parts");
  }
  return {x[0], x[1], w[1]};
}

Mapped express_packed(const Mapping& m, const Node& node) {
  const Sizes sizes = packed_sizes(m, node);
  const std::string all = node.outputs.at(0) + "/all";
  Draft product = matrix_product(m, node, node.inputs[0], node.inputs[1], false, false);
  m.add_type(&product, m.elem(node.inputs[0]));
  if (node.has_input(2)) {
    product.spec.texts("epilogue", {"bias"});
    product.layer.operands["bias"] = node.inputs[2];
  }
  product.layer.output = all;
  Mapped drafts = {product};
  attend_packed(m, node, all, sizes, m.elem(node.inputs[0]), 3, 4, 5, &drafts);
  return drafts;
}

// The same behind a product of codes.
Mapped express_quantized_packed(const Mapping& m, const Node& node) {
  const Sizes sizes = packed_sizes(m, node);
  const std::string all = node.outputs.at(0) + "/all", sums = all + "/sums";
  Mapped drafts =
      integer_product(m, node, codes_at(m, node, 0, 6), codes_at(m, node, 1, 7), sums, sizes);
  IndexExpr e(m, node, all, sizes, ElemType::f32);
  drafts.push_back(e.finish(fmt::format(
      "{} = {} * {} * {} + {}", e.left(), e.made_at(sums, sizes, ElemType::i32, e.indices()),
      parameter_at(e, m, node.inputs.at(3), "0"), parameter_at(e, m, node.inputs.at(4), "i2"),
      e.at(node.inputs.at(2), {"i2"}))));
  attend_packed(m, node, all, sizes, ElemType::f32, 5, 8, SIZE_MAX, &drafts);
  return drafts;
}

// Attention with few heads of keys, which the node turns by their positions and keeps. `seqlens_k` says for each
// batch how many keys there are, less 1: those of earlier runs come first.
class GroupedQueries {
 public:
  GroupedQueries(const Mapping& m, const Node& node) : m_(m), node_(node) {
    if (node.has_input(11) || node.integer("smooth_softmax", 0) == 1) {
      throw NotMapped("its softmax has a term more");
    }
    const int64_t heads = node.integer("num_heads", 0), own = node.integer("kv_num_heads", heads);
    const bool packed = !node.has_input(1);
    const std::string& query = node.inputs.at(0);
    const Sizes all = sizes_of_value(m, query);
    if (all.size() != 3 || heads < 1 || own < 1) throw NotMapped("expected queries of 3 axes");
    const int64_t width = all[2] / (packed ? heads + 2 * own : heads);
    const ElemType type = m.elem(query);
    q_ = heads_in(query, all, heads, 0, heads * width, type);
    const auto source = [&](size_t input, int64_t first) {
      if (packed) return heads_in(query, all, own, first * width, own * width, type);
      const std::string& value = node.inputs.at(input);
      return heads_in(value, sizes_of_value(m, value), own, 0, own * width, type);
    };
    k_ = source(1, heads);
    v_ = source(2, heads + own);
  }

  Mapped express() {
    const std::string& name = node_.outputs.at(0);
    if (node_.has_input(3)) count_earlier();
    if (node_.integer("do_rotary", 0) != 0) {
      q_ = turned(q_, name + "/q");
      k_ = turned(k_, name + "/k");
    }
    k_ = kept(k_, 3, 1, name + "/keys");
    v_ = kept(v_, 4, 2, name + "/values");
    const int64_t window = node_.integer("local_window_size", -1);
    const Masking masked = [&](IndexExpr& e, const Places& i, const std::string& score) {
      std::string text = score;
      if (node_.has_input(10)) text += " + " + aligned_at(e, m_, node_.inputs[10], i, kAdded);
      const std::string place = fmt::format("{} + {}", i[2], earlier(e, i[0]));
      std::string test = fmt::format("{} <= {}", i[3], place);
      if (window > 0) test += fmt::format(" && {} + {} > {}", i[3], window, place);
      return fmt::format("select({}, {}, {})", test, text, kNoWeight);
    };
    attend(m_, node_, q_, k_, v_, masked, &drafts_);
    return std::move(drafts_);
  }

 private:
  // The number of keys of earlier runs, for each batch; and for each row of all keys where it is among the new ones.
  void count_earlier() {
    const Sizes sizes = sizes_of_value(m_, node_.inputs.at(5)),
                before = sizes_of_value(m_, node_.inputs[3]);
    if (before.size() != 4) throw NotMapped("expected earlier keys and values of 4 axes");
    Places at = {"i0"};
    at.resize(sizes.size(), "0");
    IndexExpr e(m_, node_, earlier_, {q_.stored[0]}, ElemType::i32);
    e.accumulate(ElemType::f32);
    drafts_.push_back(e.finish(
        fmt::format("{} = max({} - {}, 0)", e.left(), e.at(node_.inputs[5], at), q_.rows - 1)));
    IndexExpr rows(m_, node_, rows_, {q_.stored[0], before[2] + k_.rows}, ElemType::i32);
    rows.accumulate(ElemType::f32);
    drafts_.push_back(rows.finish(fmt::format("{} = max(min(i1 - {}, {}), 0)", rows.left(),
                                              earlier(rows, "i0"), k_.rows - 1)));
  }

  std::string earlier(IndexExpr& e, const std::string& batch) const {
    if (!node_.has_input(3)) return "0";
    return e.made_at(earlier_, {q_.stored[0]}, ElemType::i32, {batch});
  }

  // Each pair of elements turned by the angle of its position.
  Projection turned(const Projection& p, const std::string& name) {
    const Sizes table = sizes_of_value(m_, node_.inputs.at(7));
    const int64_t half = table.at(1), all = 2 * half;
    if (all > p.width) throw NotMapped("its tables are of another size than its heads");
    Projection made = p;
    made.value = name;
    made.stored = {p.stored[0], p.heads, p.rows, p.width};
    IndexExpr e(m_, node_, made.value, made.stored, p.type);
    const Places& i = e.indices();
    const bool pairs = node_.integer("rotary_interleaved", 0) != 0;
    const std::string within = all == p.width ? i[3] : fmt::format("{} % {}", i[3], all);
    const std::string angle =
        pairs ? fmt::format("({}) // 2", within) : fmt::format("{} % {}", within, half);
    const std::string other = pairs ? fmt::format("{0} // 2 * 2 + ({0} + 1) % 2", i[3])
                                    : fmt::format("({} + {}) % {}", i[3], half, all);
    std::string place = fmt::format("{} + {}", i[2], earlier(e, i[0]));
    if (node_.has_input(9)) place = e.at(node_.inputs[9], {i[0], i[2]});
    const std::string cosine = e.at(node_.inputs[7], {place, angle}),
                      sine = e.at(node_.inputs.at(8), {place, angle});
    const std::string self = p.at(e, i[0], i[1], i[2], i[3]),
                      partner = p.at(e, i[0], i[1], i[2], other);
    const std::string first =
        pairs ? fmt::format("{} % 2 < 1", i[3]) : fmt::format("{} < {}", i[3], half);
    std::string text = fmt::format("{0} * {1} + select({2}, -({3}), {3}) * {4}", self, cosine,
                                   first, partner, sine);
    if (all < p.width) text = fmt::format("select({} < {}, {}, {})", i[3], all, text, self);
    drafts_.push_back(e.finish(fmt::format("{} = {}", e.left(), text)));
    return made;
  }

  // Behind the rows of earlier runs, of which each batch has as many as its number says.
  Projection kept(const Projection& own, size_t past, size_t present, const std::string& name) {
    if (!node_.has_input(past)) {
      return with_past(m_, node_, own, past, present, name, &drafts_);
    }
    const Sizes before = sizes_of_value(m_, node_.inputs[past]);
    const bool wanted = node_.outputs.size() > present && !node_.outputs[present].empty();
    Projection all = own;
    all.value = wanted ? node_.outputs[present] : name;
    all.rows = before[2] + own.rows;
    all.stored = {own.stored[0], own.heads, all.rows, own.width};
    IndexExpr e(m_, node_, all.value, all.stored, own.type);
    const Places& i = e.indices();
    const std::string first = earlier(e, i[0]);
    const std::string row =
        e.made_at(rows_, {own.stored[0], all.rows}, ElemType::i32, {i[0], i[2]});
    drafts_.push_back(
        e.finish(fmt::format("{} = select({} < {} && {} < {}, {}, select({} < {} + {}, {}, 0))",
                             e.left(), i[2], before[2], i[2], first, e.at(node_.inputs[past], i),
                             i[2], first, own.rows, own.at(e, i[0], i[1], row, i[3]))));
    return all;
  }

  const Mapping& m_;
  const Node& node_;
  const std::string earlier_ = node_.outputs.at(0) + "/earlier", rows_ = earlier_ + "/rows";
  Projection q_, k_, v_;
  Mapped drafts_;
};

Mapped express_grouped_queries(const Mapping& m, const Node& node) {
  return GroupedQueries(m, node).express();
}

}  // namespace

const MapFns& whole_contrib_attention_mappings() {
  static const MapFns kMappings = {{"com.microsoft.MultiHeadAttention", express_multi_head},
                                   {"com.microsoft.Attention", express_packed},
                                   {"com.microsoft.QAttention", express_quantized_packed},
                                   {"com.microsoft.GroupQueryAttention", express_grouped_queries}};
  return kMappings;
}

}  // namespace tilewright::onnx
