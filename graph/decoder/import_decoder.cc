#include "graph/decoder/import_decoder.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "graph/decoder/decoder_metadata.h"
#include "graph/decoder/decoder_weights.h"
#include "runtime/error.h"

namespace tilewright::graph {
namespace {

constexpr int64_t kMostAngles = int64_t{1} << 28;

// Cosines and sines of the angle by which position p turns the pair f of a head's elements,
// p / (base^(2f / rotated) * factor). Sines have the sign that the other element of the pair takes.
struct Turns {
  std::string cosines, sines;

  void append(double angle) {
    const auto c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
    append(&cosines, {c, c});
    append(&sines, {-s, s});
  }

 private:
  static void append(std::string* data, std::array<float, 2> pair) {
    data->append(reinterpret_cast<const char*>(pair.data()), sizeof pair);
  }
};

Turns turns_of(const Decoder& d, const std::vector<double>& factors, int64_t context) {
  Turns turns;
  for (int64_t p = 0; p < context; ++p) {
    for (int64_t f = 0; f < d.head / 2; ++f) {
      const double exponent = -2.0 * static_cast<double>(f) / static_cast<double>(d.rotated);
      const bool turned = f < d.rotated / 2;
      turns.append(turned ? static_cast<double>(p) * std::pow(d.rope_base, exponent) /
                                factors[static_cast<size_t>(f)]
                          : 0);
    }
  }
  return turns;
}

// Heads that stand in the columns of a value, from `first` on of `heads`.
struct Heads {
  size_t value = 0;
  int64_t first = 0, heads = 0;
};

// Makes the nodes in their order.
class DecoderImporter {
 public:
  DecoderImporter(const weights::TensorFile& file, const Decoder& decoder,
                  const DecoderSizes& sizes)
      : file_(file), d_(decoder), tokens_(sizes.tokens), context_(sizes.context) {}

  Graph import() {
    graph_.name = "decoder";
    const size_t tokens = input("tokens", tokens_);
    position_ = input("position", 1);
    const size_t last = tokens_ > 1 ? input("last", 1) : 0;
    length_ =
        node("length", fmt::format("expr:expr=\"N[b] = P[b] + {}\",dims.b=1,dtype=i32", tokens_),
             {{"P", position_}}, {1}, ElemType::i32);
    add_turns();
    size_t x = embedding(tokens);
    for (int64_t layer = 0; layer < d_.layers; ++layer) {
      block_ = fmt::format("blk.{}.", layer);
      x = feed_forward(attention(x));
    }
    block_.clear();
    if (tokens_ > 1) x = row_of(x, last);
    x = norm("output_norm", x, 1);
    const std::string matrix =
        file_.find("output.weight") == nullptr ? "token_embd.weight" : "output.weight";
    graph_.outputs = {product("logits", {{matrix, d_.vocabulary}}, d_.width, x, 1, {})};
    graph_.values[graph_.outputs[0]].shape = {d_.vocabulary};
    refuse_others();
    return std::move(graph_);
  }

 private:
  using Operands = std::map<std::string, size_t>;
  using Matrices = std::vector<std::pair<std::string, int64_t>>;  // names and rows

  size_t input(const std::string& name, int64_t count) {
    graph_.inputs.push_back(graph_.add({name, ElemType::i32, {count}}));
    return graph_.inputs.back();
  }

  size_t node(const std::string& label, const std::string& spec, Operands operands, Shape shape,
              ElemType elem = ElemType::f32) {
    Node made;
    made.label = block_ + label;
    made.spec = spec;
    made.operands = std::move(operands);
    made.output = graph_.add({made.label, elem, std::move(shape)});
    graph_.nodes.push_back(std::move(made));
    return graph_.nodes.back().output;
  }

  // An element type beside the name tells constants of one tensor apart.
  size_t constant(const std::string& tensor, const StoredPart& part) {
    const std::string name = tensor + part.suffix, typed = name + "/" + to_string(part.elem);
    for (const std::string& known : {name, typed}) {
      auto [place, fresh] = constants_.emplace(known, 0);
      if (fresh) place->second = graph_.add({known, part.elem, part.shape, true, part.data});
      if (graph_.values[place->second].elem == part.elem) return place->second;
    }
    TW_ASSERT(false, "two constants called " + typed);
    return 0;
  }
  void add_parts(const std::string& operand, const std::string& tensor, const StoredMatrix& matrix,
                 Operands* operands) {
    for (const StoredPart& part : matrix.parts) {
      operands->emplace(operand + part.suffix, constant(tensor, part));
    }
  }

  void add_turns() {
    std::vector<double> factors(static_cast<size_t>(d_.rotated / 2), d_.rope_factor);
    const std::string stored = "rope_freqs.weight";
    if (file_.find(stored) != nullptr) {
      const StoredPart part = read_vector(file_, used(stored), d_.rotated / 2);
      for (size_t f = 0; f < factors.size(); ++f) {
        float factor = 0;
        std::memcpy(&factor, part.data->data() + f * sizeof factor, sizeof factor);
        factors[f] *= factor;
      }
    }
    Turns turns = turns_of(d_, factors, context_);
    auto add = [&](const std::string& name, std::string data) {
      return constant(name, {"",
                             ElemType::f32,
                             {context_, d_.head / 2, 2},
                             std::make_shared<const std::string>(std::move(data))});
    };
    cosines_ = add("rope.cosines", std::move(turns.cosines));
    sines_ = add("rope.sines", std::move(turns.sines));
  }

  size_t embedding(size_t tokens) {
    const std::string name = used("token_embd.weight");
    const StoredMatrix table = read_table(file_, name, d_.vocabulary, d_.width);
    Operands operands = {{"I", tokens}, {"E", constant(name, table.parts[0])}};
    const std::array<std::string, 3> tensors = {"E", "S", "O"};
    std::string value = table.parts.size() == 1 ? "E[I[i], j]" : "E[j, I[i]]", keys;
    for (size_t i = 0; i < table.parts.size(); ++i) {
      const StoredPart& part = table.parts[i];
      keys += fmt::format(",shapes.{0}=[{1}],dtypes.{0}={2}", tensors[i],
                          fmt::join(part.shape, ","), to_string(part.elem));
      if (i == 0) continue;
      operands.emplace(tensors[i], constant(name, part));
      value += fmt::format(" {} {}[j // {}, I[i]]", i == 1 ? "*" : "+", tensors[i],
                           d_.width / part.shape[0]);
    }
    return node("embedding",
                fmt::format("expr:expr=\"Y[i, j] = {}\",dims.i={},dims.j={}{}", value, tokens_,
                            d_.width, keys),
                operands, {tokens_, d_.width});
  }

  size_t row_of(size_t x, size_t row) {
    return node("last_row",
                fmt::format("expr:expr=\"Y[j] = X[R[0], j]\",dims.j={1},shapes.X=[{0},{1}]",
                            tokens_, d_.width),
                {{"X", x}, {"R", row}}, {1, d_.width});
  }

  size_t norm(const std::string& name, size_t x, int64_t rows) {
    const std::string tensor = used(block_ + name + ".weight");
    const size_t gamma = constant(tensor, read_vector(file_, tensor, d_.width));
    return node(name, fmt::format("rms_norm:m={},n={},eps={},affine=true", rows, d_.width, d_.eps),
                {{"X", x}, {"gamma", gamma}}, {rows, d_.width});
  }

  // `x` of m rows times the matrices beside each other, plus the value `added` by an epilogue.
  size_t product(const std::string& label, const Matrices& matrices, int64_t k, size_t x, int64_t m,
                 std::optional<size_t> added, const std::string& epilogue = "add") {
    std::vector<std::string> names;
    std::vector<int64_t> rows;
    int64_t n = 0;
    for (const auto& [name, count] : matrices) {
      names.push_back(used(name));
      rows.push_back(count);
      n += count;
    }
    const StoredMatrix matrix = read_matrix(file_, names, rows, k);
    Operands operands = {{"A", x}};
    add_parts("B", fmt::format("{}", fmt::join(names, "+")), matrix, &operands);
    if (added) operands.emplace("D", *added);
    const bool ends = added || epilogue != "add";
    return node(label,
                fmt::format("matmul:m={},n={},k={},{}{}", m, n, k, matrix.keys,
                            ends ? ",epilogue=[" + epilogue + "]" : ""),
                operands, {m, n});
  }

  std::string in_block(const std::string& name) const { return block_ + name + ".weight"; }

  // Queries, keys and values, of one product where their weights are stored alike.
  std::array<Heads, 3> projections(size_t x) {
    const std::array<std::string, 3> labels = {"attn_q", "attn_k", "attn_v"};
    const std::array<int64_t, 3> heads = {d_.heads, d_.key_heads, d_.key_heads};
    Matrices matrices;
    std::vector<std::string> names;
    for (size_t i = 0; i < labels.size(); ++i) {
      names.push_back(in_block(labels[i]));
      matrices.emplace_back(names[i], heads[i] * d_.head);
    }
    std::array<Heads, 3> found;
    if (can_join(file_, names)) {
      const size_t joined = product("attn_qkv", matrices, d_.width, x, tokens_, {});
      const int64_t all = d_.heads + 2 * d_.key_heads;
      return {Heads{joined, 0, all}, {joined, d_.heads, all}, {joined, all - d_.key_heads, all}};
    }
    for (size_t i = 0; i < labels.size(); ++i) {
      found[i] = {product(labels[i], {matrices[i]}, d_.width, x, tokens_, {}), 0, heads[i]};
    }
    return found;
  }

  // [count, tokens, head], each pair of elements turned by its position (Su et al., "RoFormer", 2021).
  size_t turned(const std::string& label, const Heads& from, int64_t count) {
    const std::string element = fmt::format("X[i, h + {}, f, ", from.first);
    const std::string spec = fmt::format(
        "expr:expr=\"Y[h, i, f, s] = {0}s] * C[P[0] + i, f, s] + {0}1 - s] * S[P[0] + i, f, s]\","
        "dims.h={1},dims.i={2},dims.f={3},dims.s=2,shapes.X=[{2},{4},{3},2],shapes.C=[{5},{3},2],"
        "shapes.S=[{5},{3},2]",
        element, count, tokens_, d_.head / 2, from.heads, context_);
    return node(label, spec, {{"X", from.value}, {"C", cosines_}, {"S", sines_}, {"P", position_}},
                {count, tokens_, d_.head});
  }

  // [count, tokens, head].
  size_t copied(const std::string& label, const Heads& from, int64_t count) {
    return node(label,
                fmt::format("expr:expr=\"Y[h, i, e] = X[i, h + {}, e]\",dims.h={},dims.i={},"
                            "dims.e={},shapes.X=[{},{},{}]",
                            from.first, count, tokens_, d_.head, tokens_, from.heads, d_.head),
                {{"X", from.value}}, {count, tokens_, d_.head});
  }

  // The state of that name behind a write of these rows.
  size_t cached(const std::string& name, size_t rows) {
    const Shape shape = {d_.key_heads, context_, d_.head};
    graph_.states.push_back(graph_.add({block_ + name, ElemType::f32, shape}));
    return node(name + "_so_far", "", {{"X", graph_.states.back()}, {"R", rows}, {"P", position_}},
                shape);
  }

  size_t attention(size_t x) {
    const auto [q, k, v] = projections(norm("attn_norm", x, tokens_));
    const size_t queries = turned("queries", q, d_.heads);
    const size_t keys = cached("keys", turned("new_keys", k, d_.key_heads));
    const size_t values = cached("values", copied("new_values", v, d_.key_heads));
    std::string masks = tokens_ > 1 || d_.window > 0 ? ",causal=true" : "";
    if (d_.window > 0) masks += fmt::format(",window={}", d_.window);
    size_t seen = node("attention",
                       fmt::format("attention:heads={},kv_heads={},m={},n={},d={},lengths=keys{}",
                                   d_.heads, d_.key_heads, tokens_, context_, d_.head, masks),
                       {{"Q", queries}, {"K", keys}, {"V", values}, {"N", length_}},
                       {d_.heads, tokens_, d_.head});
    const int64_t columns = d_.heads * d_.head;
    if (tokens_ > 1) {
      seen = node("attention_rows",
                  fmt::format("expr:expr=\"Y[i, h, e] = X[h, i, e]\",dims.i={},dims.h={},dims.e={}",
                              tokens_, d_.heads, d_.head),
                  {{"X", seen}}, {tokens_, columns});
    }
    return product("attn_output", {{in_block("attn_output"), d_.width}}, columns, seen, tokens_, x);
  }

  size_t feed_forward(size_t x) {
    const size_t normed = norm("ffn_norm", x, tokens_);
    const std::string gate = in_block("ffn_gate"), up = in_block("ffn_up");
    size_t opened = 0;
    if (can_join(file_, {gate, up})) {
      const StoredMatrix g = read_matrix(file_, {used(gate)}, {d_.inner}, d_.width),
                         u = read_matrix(file_, {used(up)}, {d_.inner}, d_.width);
      Operands operands = {{"A", normed}};
      add_parts("G", gate, g, &operands);
      add_parts("U", up, u, &operands);
      opened = node("ffn_gate_up",
                    fmt::format("gated_mlp:m={},n={},k={},{}", tokens_, d_.inner, d_.width, g.keys),
                    operands, {tokens_, d_.inner});
    } else {
      const size_t g = product("ffn_gate", {{gate, d_.inner}}, d_.width, normed, tokens_, {},
                               "silu"),
                   u = product("ffn_up", {{up, d_.inner}}, d_.width, normed, tokens_, {});
      opened =
          node("ffn_gate_up", fmt::format("elementwise:shape=[{},{}],fn=mul", tokens_, d_.inner),
               {{"X", g}, {"Z", u}}, {tokens_, d_.inner});
    }
    return product("ffn_down", {{in_block("ffn_down"), d_.width}}, d_.inner, opened, tokens_, x);
  }

  const std::string& used(const std::string& name) { return *used_.insert(name).first; }
  // A tensor that nothing reads would change the model's meaning, as a bias does.
  void refuse_others() const {
    for (const weights::StoredTensor& tensor : file_.tensors()) {
      if (used_.contains(tensor.name)) continue;
      weights::damaged(file_.path(), tensor.offset,
                       fmt::format("tensor '{}' is none that a decoder of {} layers has here",
                                   tensor.name, d_.layers));
    }
  }

  const weights::TensorFile& file_;
  const Decoder& d_;
  int64_t tokens_, context_;
  Graph graph_;
  std::string block_;  // in front of names: "blk.0."
  size_t position_ = 0, length_ = 0, cosines_ = 0, sines_ = 0;
  std::map<std::string, size_t> constants_;
  std::set<std::string> used_;
};

void check_sizes(const Decoder& d, const DecoderSizes& sizes) {
  if (sizes.context < 1 || sizes.context > d.trained || sizes.context * d.head > kMostAngles) {
    throw UsageError(fmt::format("--dim context={}: expected 1 to {}, the positions of the model",
                                 sizes.context, std::min(d.trained, kMostAngles / d.head)));
  }
  if (sizes.tokens < 1 || sizes.tokens > sizes.context) {
    throw UsageError(fmt::format("--dim tokens={}: expected 1 to {}, the size of context",
                                 sizes.tokens, sizes.context));
  }
}

}  // namespace

Graph import_decoder(const weights::TensorFile& file, const DecoderSizes& sizes) {
  const Decoder decoder = read_decoder(file);
  check_sizes(decoder, sizes);
  return DecoderImporter(file, decoder, sizes).import();
}

}  // namespace tilewright::graph
