// Attention and rotary positions of one node, as layers of whole models.
#include <fmt/format.h>

#include <cmath>

#include "models/onnx/whole/attention_parts.h"
#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

Projection projection_of(const Mapping& m, const Node& node, size_t input, const char* attribute) {
  Projection h;
  h.value = node.inputs.at(input);
  h.stored = sizes_of_value(m, h.value);
  h.type = m.elem(h.value);
  const Sizes& s = h.stored;
  if (s.size() == 4) {
    h.heads = s[1];
    h.rows = s[2];
    h.width = s[3];
    return h;
  }
  h.heads = node.integer(attribute, 0);
  if (s.size() != 3 || h.heads < 1 || s[2] % h.heads != 0) {
    throw NotMapped(fmt::format("'{}' is not shared evenly by {} heads", h.value, h.heads));
  }
  h.rows = s[1];
  h.width = s[2] / h.heads;
  return h;
}

// The places of queries among the keys: behind `past` ones, or at the end of as many as the input `nonpad_kv_seqlen`
// says for each batch.
struct QueryPlaces {
  int64_t past = 0, queries = 1;
  bool counted = false;
};

// Which keys a query sees by their places; "" for all.
std::string sees(IndexExpr& e, const Node& node, const std::string& batch, const std::string& query,
                 const std::string& key, const QueryPlaces& places) {
  std::vector<std::string> tests;
  std::string place = places.past > 0 ? fmt::format("{} + {}", query, places.past) : query;
  if (places.counted) {
    const std::string count = e.at(node.inputs[6], {batch});
    tests.push_back(fmt::format("{} < {}", key, count));
    place = fmt::format("{} + {} - {}", query, count, places.queries);
  }
  if (node.integer("is_causal", 0) != 0) tests.push_back(fmt::format("{} <= {}", key, place));
  const int64_t left = node.integer("left_window_size", -1),
                right = node.integer("right_window_size", -1);
  if (left >= 0) tests.push_back(fmt::format("{} + {} >= {}", key, left, place));
  if (right >= 0) tests.push_back(fmt::format("{} <= {} + {}", key, place, right));
  return fmt::format("{}", fmt::join(tests, " && "));
}

bool is_flags(const Mapping& m, const std::string& mask) { return m.elem(mask) == ElemType::u8; }

// The mask's element for a batch, a head, a query and a key. One that ends before the keys do hides the others.
std::string mask_at(IndexExpr& e, const Mapping& m, const std::string& mask, const Places& places,
                    int64_t keys) {
  const Sizes sizes = sizes_of_value(m, mask);
  std::string own = aligned_at(e, m, mask, places, "its mask");
  if (sizes.empty() || sizes.back() == 1 || sizes.back() >= keys) return own;
  return fmt::format("select({} < {}, {}, {})", places.back(), sizes.back(), own,
                     is_flags(m, mask) ? "0" : kNoWeight);
}

// [batch, heads, queries, keys]: scaled products, with what masks leave of them.
Draft scores_of(const Mapping& m, const Node& node, const Projection& q, const Projection& k,
                const QueryPlaces& places, const std::string& output, bool masked = true,
                ElemType type = ElemType::f32) {
  IndexExpr e(m, node, output, {q.stored[0], q.heads, q.rows, k.rows}, type);
  const Places i = e.indices();
  const std::string r = e.reduced(q.width), sum = e.left("S");
  const std::string products = fmt::format("{} * {}", q.at(e, i[0], i[1], i[2], r),
                                           k.at(e, i[0], source_of(q, k, i[1]), i[3], r));
  std::string score = fmt::format(
      "{} * {}", sum, literal(node.real("scale", 1 / std::sqrt(static_cast<double>(q.width)))));
  score = capped(node, score);
  if (!masked) return e.finish(fmt::format("{} += {}; {} = {}", sum, products, e.left(), score));
  if (node.has_input(3)) {
    const std::string mask = mask_at(e, m, node.inputs[3], i, k.rows);
    score = is_flags(m, node.inputs[3])
                ? fmt::format("select({} != 0, {}, {})", mask, score, kNoWeight)
                : fmt::format("{} + {}", score, mask);
  }
  if (const std::string test = sees(e, node, i[0], i[2], i[3], places); !test.empty()) {
    score = fmt::format("select({}, {}, {})", test, score, kNoWeight);
  }
  return e.finish(fmt::format("{} += {}; {} = {}", sum, products, e.left(), score));
}

// The same, with zeros where masks leave a query no key.
Draft guarded(const Mapping& m, const Node& node, const std::string& values, const Sizes& sizes,
              int64_t keys, const QueryPlaces& places, const std::string& output, ElemType from,
              ElemType type) {
  IndexExpr e(m, node, output, sizes, type);
  const Places i = e.indices();
  const std::string r = e.reduced(keys);
  std::vector<std::string> tests;
  if (node.has_input(3)) {
    const std::string mask = mask_at(e, m, node.inputs[3], {i[0], i[1], i[2], r}, keys);
    tests.push_back(is_flags(m, node.inputs[3]) ? mask + " != 0"
                                                : fmt::format("{} > {}", mask, kNoWeight));
  }
  if (const std::string seen = sees(e, node, i[0], i[2], r, places); !seen.empty()) {
    tests.push_back(seen);
  }
  const std::string value = e.made_at(values, sizes, from, i);
  if (tests.empty()) return e.finish(fmt::format("{} = {}", e.left(), value));
  const std::string some = fmt::format("A[{}, {}, {}]", i[0], i[1], i[2]);
  return e.finish(fmt::format("{} max= select({}, 1, 0); {} = select({} > 0, {}, 0)", some,
                              fmt::join(tests, " && "), e.left(), some, value));
}

// The products or the weights of the node, as an output where the model wants it.
void give_scores(const Mapping& m, const Node& node, const Projection& q, const Projection& k,
                 const QueryPlaces& places, Mapped* drafts) {
  if (node.outputs.size() < 4 || node.outputs[3].empty()) return;
  const int64_t mode = node.integer("qk_matmul_output_mode", 0);
  const Sizes sizes = {q.stored[0], q.heads, q.rows, k.rows};
  if (mode == 3) {
    drafts->push_back(guarded(m, node, node.outputs[0] + "/weights", sizes, k.rows, places,
                              node.outputs[3], ElemType::f32, q.type));
    return;
  }
  const bool masked = node.has_input(3) || node.has_input(6) || node.integer("is_causal", 0) != 0 ||
                      node.integer("left_window_size", -1) >= 0 ||
                      node.integer("right_window_size", -1) >= 0;
  if (node.real("softcap", 0) > 0 || (mode != 0 && masked)) {
    throw NotMapped(
        "it gives masked or capped scores; expected qk_matmul_output_mode 0 without "
        "softcap, or 3");
  }
  drafts->push_back(scores_of(m, node, q, k, places, node.outputs[3], false, q.type));
}

// The layers in which `graph/attention.h` finds attention.
Mapped express_attention(const Mapping& m, const Node& node) {
  const std::string& name = node.outputs.at(0);
  Mapped drafts;
  const Projection q = projection_of(m, node, 0, "q_num_heads");
  const Projection own_keys = projection_of(m, node, 1, "kv_num_heads");
  const Projection k = with_past(m, node, own_keys, 4, 1, name + "/keys", &drafts);
  const Projection v = with_past(m, node, projection_of(m, node, 2, "kv_num_heads"), 5, 2,
                                 name + "/values", &drafts);
  if (k.heads != v.heads || q.heads % k.heads != 0 || k.rows != v.rows) {
    throw NotMapped(fmt::format("{} heads of queries do not share {} of keys", q.heads, k.heads));
  }
  const QueryPlaces past = {k.rows - own_keys.rows, q.rows, node.has_input(6)};
  const bool masked = node.has_input(3) || node.has_input(6), flat = q.stored.size() == 3;
  const Sizes made = {q.stored[0], q.heads, q.rows, v.width};
  drafts.push_back(scores_of(m, node, q, k, past, name + "/scores"));
  drafts.push_back(softmax_of(m, node, name + "/scores", {made[0], made[1], made[2], k.rows},
                              name + "/weights"));
  give_scores(m, node, q, k, past, &drafts);
  std::string last = masked || flat ? name + "/sums" : name;
  drafts.push_back(values_of(m, node, name + "/weights", q, v, last, q.type));
  if (masked) {
    const std::string zeros = flat ? name + "/seen" : name;
    drafts.push_back(guarded(m, node, last, made, k.rows, past, zeros, q.type, q.type));
    last = zeros;
  }
  if (flat) drafts.push_back(reordered(m, node, last, made, q.type, {0, 2, 1, 3}, name));
  return drafts;
}

// Each pair of elements turned by the angle of its row (Su et al., "RoFormer", 2021).
Mapped express_rotary(const Mapping& m, const Node& node) {
  const bool own = node.domain.empty();
  const size_t place = own ? 3 : 1, cosines = own ? 1 : 2, sines = own ? 2 : 3;
  IndexExpr e(m, node);
  const Sizes& sizes = e.sizes();
  if (sizes.size() != 3 && sizes.size() != 4) throw NotMapped("expected 3 or 4 axes");
  const std::string &x = node.inputs.at(0), &along = e.indices().back();
  const std::string row = e.indices()[sizes.size() - 2];
  const Sizes table = sizes_of_value(m, node.inputs.at(cosines));
  int64_t width = sizes.back();
  if (sizes.size() == 3) {
    const int64_t heads = node.integer("num_heads", 0);
    // Elsewhere the tables say how wide a head is.
    width = heads > 0 ? width / heads : 2 * table.back();
  }
  const int64_t given = node.integer("rotary_embedding_dim", 0), turned = given > 0 ? given : width;
  const int64_t half = turned / 2;
  if (width < 1 || sizes.back() % width != 0 || turned > width || table.back() != half) {
    throw NotMapped("its tables are of another size than its heads");
  }
  const std::string column = width == sizes.back() ? along : fmt::format("{} % {}", along, width);
  const bool pairs = node.integer("interleaved", 0) != 0;
  const std::string within = turned == width ? column : fmt::format("{} % {}", column, turned);
  const std::string angle =
      pairs ? fmt::format("({}) // 2", within) : fmt::format("{} % {}", within, half);
  if (pairs && width % 2 != 0) throw NotMapped("its heads have an odd number of elements");
  Places at = {angle};
  if (node.has_input(place)) {
    const Sizes places = sizes_of_value(m, node.inputs[place]);
    if (places.size() != 2 || places[1] != sizes[sizes.size() - 2]) {
      throw NotMapped("its positions are not those of all rows");
    }
    at.insert(at.begin(), e.at(node.inputs[place], {places[0] == 1 ? "0" : "i0", row}));
  } else {
    at.insert(at.begin(), {"i0", row});
  }
  if (at.size() != table.size()) throw NotMapped("its tables have other axes");
  const std::string cosine = e.at(node.inputs[cosines], at), sine = e.at(node.inputs.at(sines), at);
  // The pair's other element, at an index that is in range for all columns.
  Places other = e.indices();
  other.back() = pairs ? fmt::format("{0} // 2 * 2 + ({0} + 1) % 2", along)
                       : fmt::format("{0} // {1} * {1} + ({2} + {3}) % {4}", along, width, column,
                                     half, turned);
  const std::string partner = e.at(x, other), self = e.at(x, e.indices());
  const std::string first =
      pairs ? fmt::format("{} % 2 < 1", along) : fmt::format("{} < {}", column, half);
  std::string text = fmt::format("{} * {} + select({}, -({}), {}) * {}", self, cosine, first,
                                 partner, partner, sine);
  if (turned < width) text = fmt::format("select({} < {}, {}, {})", column, turned, text, self);
  return {e.finish(fmt::format("{} = {}", e.left(), text))};
}

}  // namespace

std::string Projection::at(IndexExpr& e, const std::string& batch, const std::string& head,
                           const std::string& row, const std::string& column) const {
  Places indices = {batch, head, row, column};
  if (stored.size() == 3) {
    const std::string start = first == 0 ? "" : fmt::format("{} + ", first);
    indices = {batch, row, fmt::format("{}({}) * {} + {}", start, head, width, column)};
  }
  if (stored.size() == 5) indices = {batch, row, head, std::to_string(part), column};
  return e.made_at(value, stored, type, indices);
}

std::string aligned_at(IndexExpr& e, const Mapping& m, const std::string& value,
                       const Places& places, const char* what) {
  const Sizes sizes = sizes_of_value(m, value);
  if (sizes.size() > places.size()) throw NotMapped(fmt::format("{} has more than 4 axes", what));
  Places at;
  for (size_t d = 0; d < sizes.size(); ++d) {
    at.push_back(sizes[d] == 1 ? "0" : places[places.size() - sizes.size() + d]);
  }
  return e.at(value, at);
}

std::string capped(const Node& node, const std::string& score) {
  const double cap = node.real("softcap", 0);
  if (cap <= 0) return score;
  return fmt::format("tanh(({}) * {}) * {}", score, literal(1 / cap), literal(cap));
}

Projection with_past(const Mapping& m, const Node& node, const Projection& rest, size_t past,
                     size_t present, const std::string& name, Mapped* drafts) {
  const bool given = node.has_input(past);
  const bool wanted = node.outputs.size() > present && !node.outputs[present].empty();
  if (!given && !wanted) return rest;
  Projection all = rest;
  all.value = wanted ? node.outputs[present] : name;
  const Sizes before = given ? sizes_of_value(m, node.inputs[past]) : Sizes{};
  if (given && before.size() != 4) throw NotMapped("expected earlier keys and values of 4 axes");
  const int64_t first = given ? before[2] : 0;
  all.rows = first + rest.rows;
  all.stored = {rest.stored[0], rest.heads, all.rows, rest.width};
  IndexExpr e(m, node, all.value, all.stored, rest.type);
  const Places& i = e.indices();
  const std::string row = given ? fmt::format("{} - {}", i[2], first) : i[2];
  std::string text = rest.at(e, i[0], i[1], row, i[3]);
  if (given)
    text = fmt::format("select({} < {}, {}, {})", i[2], first, e.at(node.inputs[past], i), text);
  drafts->push_back(e.finish(fmt::format("{} = {}", e.left(), text)));
  return all;
}

std::string source_of(const Projection& queries, const Projection& source,
                      const std::string& head) {
  if (queries.heads == source.heads) return head;
  return fmt::format("{} // {}", head, queries.heads / source.heads);
}

Draft softmax_of(const Mapping& m, const Node& node, const std::string& scores, const Sizes& sizes,
                 const std::string& output) {
  Draft d = m.draft("softmax", node);
  const int64_t rows = sizes[0] * sizes[1] * sizes[2];
  d.spec.size("m", {rows, rows}).size("n", {sizes[3], sizes[3]});
  d.layer.operands["X"] = scores;
  d.layer.output = output;
  return d;
}

Draft values_of(const Mapping& m, const Node& node, const std::string& weights, const Projection& q,
                const Projection& v, const std::string& output, ElemType type) {
  IndexExpr e(m, node, output, {q.stored[0], q.heads, q.rows, v.width}, type);
  const Places i = e.indices();
  const std::string r = e.reduced(v.rows);
  const std::string weight = e.made_at(weights, {q.stored[0], q.heads, q.rows, v.rows},
                                       ElemType::f32, {i[0], i[1], i[2], r});
  return e.finish(fmt::format("{} += {} * {}", e.left(), weight,
                              v.at(e, i[0], source_of(q, v, i[1]), r, i[3])));
}

const MapFns& whole_attention_mappings() {
  static const MapFns kMappings = {{"Attention", express_attention},
                                   {"RotaryEmbedding", express_rotary},
                                   {"com.microsoft.RotaryEmbedding", express_rotary}};
  return kMappings;
}

}  // namespace tilewright::onnx
