// Decoders out of GGUF files: each program beside plain loops over the file's values.
#include "graph/decoder/import_decoder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "runtime/tensor/element.h"
#include "tests/graph/decoder/decoder_file.h"
#include "tests/graph/graphs.h"

namespace tilewright::graph {
namespace {

using test::DecoderFile;
using test::GgmlType;
using testing::HasSubstr;
using weights::TensorFile;
using Row = std::vector<double>;

Row operator+(Row a, const Row& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// A decoder of the file, one token after another, by loops in f64.
class PlainDecoder {
 public:
  PlainDecoder(const DecoderFile& made, const TensorFile& file)
      : made_(made), file_(file), keys_(made.layers), values_(made.layers) {}

  Row step(size_t token) {
    const Row table = values_of("token_embd");
    Row x(table.begin() + static_cast<std::ptrdiff_t>(token * made_.width),
          table.begin() + static_cast<std::ptrdiff_t>((token + 1) * made_.width));
    for (size_t layer = 0; layer < made_.layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      const Row a = norm(x, block + "attn_norm");
      keys_[layer].push_back(turned(times(a, block + "attn_k")));
      values_[layer].push_back(times(a, block + "attn_v"));
      x = x + times(seen(turned(times(a, block + "attn_q")), layer), block + "attn_output");
      const Row f = norm(x, block + "ffn_norm");
      Row gate = times(f, block + "ffn_gate");
      const Row up = times(f, block + "ffn_up");
      for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      x = x + times(gate, block + "ffn_down");
    }
    ++position_;
    return times(norm(x, "output_norm"), made_.own_output ? "output" : "token_embd");
  }

 private:
  size_t head() const { return made_.width / made_.heads; }

  // A tensor's elements as they lie.
  Row values_of(const std::string& name) const {
    const std::string full = name + ".weight";
    const weights::StoredTensor& tensor = *file_.find(full);
    Row values(static_cast<size_t>(tensor.count));
    const auto layer = weights::find_layer(file_, full);
    if (!layer) {
      const TensorView view = file_.view(tensor);
      for (size_t i = 0; i < values.size(); ++i) values[i] = view.get(static_cast<int64_t>(i));
      return values;
    }
    const std::vector<float> columns = weights::dequantize(weights::read_layer(file_, *layer, {}));
    const auto n = static_cast<size_t>(layer->n), k = static_cast<size_t>(layer->k);
    for (size_t i = 0; i < values.size(); ++i) values[i] = columns[i % k * n + i / k];
    return values;
  }
  Row times(const Row& x, const std::string& name) const {
    const Row matrix = values_of(name);
    Row y(matrix.size() / x.size(), 0);
    for (size_t i = 0; i < matrix.size(); ++i) y[i / x.size()] += matrix[i] * x[i % x.size()];
    return y;
  }
  Row norm(const Row& x, const std::string& name) const {
    const double squares = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5f);
    Row y = values_of(name);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= x[i] * factor;
    return y;
  }
  Row turned(const Row& x) const {
    Row y = x;
    for (size_t i = 0; i < x.size(); i += 2) {
      const double angle = position_ * std::pow(100.0, -static_cast<double>(i % head()) /
                                                           static_cast<double>(head()));
      y[i] = x[i] * std::cos(angle) - x[i + 1] * std::sin(angle);
      y[i + 1] = x[i] * std::sin(angle) + x[i + 1] * std::cos(angle);
    }
    return y;
  }
  Row seen(const Row& queries, size_t layer) const {
    Row y(made_.width, 0);
    for (size_t h = 0; h < made_.heads; ++h) {
      const size_t from = h * made_.key_heads / made_.heads * head();
      Row shares;
      for (const Row& key : keys_[layer]) {
        double score = 0;
        for (size_t e = 0; e < head(); ++e) score += queries[h * head() + e] * key[from + e];
        shares.push_back(score / std::sqrt(static_cast<double>(head())));
      }
      const double top = *std::max_element(shares.begin(), shares.end());
      for (double& share : shares) share = std::exp(share - top);
      const auto window = made_.numbers.find("attention.sliding_window");
      for (size_t j = 0; window != made_.numbers.end() && j + window->second < shares.size(); ++j) {
        shares[j] = 0;
      }
      const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
      for (size_t j = 0; j < shares.size(); ++j) {
        for (size_t e = 0; e < head(); ++e) {
          y[h * head() + e] += shares[j] / all * values_[layer][j][from + e];
        }
      }
    }
    return y;
  }

  const DecoderFile& made_;
  const TensorFile& file_;
  int position_ = 0;
  std::vector<std::vector<Row>> keys_, values_;
};

Bytes whole_numbers(const std::vector<int32_t>& values) {
  return std::make_shared<const std::string>(test::raw(values));
}

// A program of the file, and what it keeps.
class Program {
 public:
  Program(const TensorFile& file, int64_t tokens, int64_t context = 8)
      : graph_(import_decoder(file, {tokens, context})) {
    verify(graph_);
  }
  std::vector<float> run(const std::vector<int32_t>& tokens, int position, int last,
                         std::map<std::string, Bytes>* states) const {
    std::map<std::string, Bytes> inputs = {{"tokens", whole_numbers(tokens)},
                                           {"position", whole_numbers({position})}};
    if (tokens.size() > 1) inputs["last"] = whole_numbers({last});
    const Bytes logits = interpret(graph_, inputs, states).at(0);
    std::vector<float> values(logits->size() / sizeof(float));
    std::memcpy(values.data(), logits->data(), logits->size());
    return values;
  }
  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
};

void expect_close(const std::vector<float>& got, const Row& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0;
  for (double w : wanted) largest = std::max(largest, std::abs(w));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 3e-6 * largest) << i;
}

// Steps of one token each, and a chunk in front of them.
void expect_plain(const DecoderFile& made) {
  const std::string bytes = made.bytes();
  const TensorFile file = TensorFile::parse(bytes, "made.gguf");
  const std::vector<int32_t> tokens = {3, 17, 39, 0, 17, 8};
  PlainDecoder plain(made, file);
  std::vector<Row> wanted;
  for (int32_t token : tokens) wanted.push_back(plain.step(static_cast<size_t>(token)));

  const Program step(file, 1), chunk(file, 4);
  std::map<std::string, Bytes> states;
  for (int i = 0; i < 6; ++i) {
    expect_close(step.run({tokens[static_cast<size_t>(i)]}, i, 0, &states),
                 wanted[static_cast<size_t>(i)]);
  }
  // Three of the chunk's tokens count; what stands behind them is written over. States of another sequence
  // are there.
  expect_close(chunk.run({3, 17, 39, 11}, 0, 2, &states), wanted[2]);
  expect_close(step.run({0}, 3, 0, &states), wanted[3]);
  expect_close(chunk.run({17, 8, 1, 1}, 4, 1, &states), wanted[5]);
}

TEST(ImportDecoder, StepsAndChunksAreThoseOfPlainLoops) { expect_plain({}); }

TEST(ImportDecoder, QueriesMayHaveAWindow) {
  DecoderFile made;
  made.numbers["attention.sliding_window"] = 2;
  expect_plain(made);
}

TEST(ImportDecoder, TheEmbeddingMayBeTheLastMatrix) {
  DecoderFile made;
  made.own_output = false;
  expect_plain(made);
  // Both read the codes and scales of one constant.
  const std::string bytes = made.bytes();
  const Program step(TensorFile::parse(bytes, "made.gguf"), 1);
  int64_t of_embedding = 0;
  for (const Value& v : step.graph().values) {
    if (v.name.starts_with("token_embd")) of_embedding += v.bytes();
  }
  EXPECT_EQ(of_embedding, 40 * 64 + 40 * 64 / 32 * 2);
}

TEST(ImportDecoder, EachTypeOfWeights) {
  DecoderFile made;
  made.layers = 1;
  made.embedding = GgmlType::Q4_0;
  made.weights = GgmlType::Q4_0;
  made.values = GgmlType::Q8_0;  // so that queries, keys and values are products of their own
  expect_plain(made);
  made.embedding = GgmlType::F16;
  made.weights = GgmlType::F32;
  made.values = GgmlType::F16;
  expect_plain(made);
  made.width = made.inner = 256;
  made.embedding = made.weights = made.values = GgmlType::Q4_K;
  expect_plain(made);
}

TEST(ImportDecoder, WeightsKeepTheirCodes) {
  const std::string bytes = DecoderFile().bytes();
  const std::string text = to_string(Program(TensorFile::parse(bytes, "made.gguf"), 1).graph());
  EXPECT_THAT(text, HasSubstr("matmul:m=1,n=128,k=64,w.dtype=u4,w.group=32,w.scale=f16,"
                              "w.offset=f16"));
  EXPECT_THAT(text, HasSubstr("gated_mlp:m=1,n=96,k=64,w.dtype=u4"));
  EXPECT_THAT(text, HasSubstr("state \"blk.1.values\": f32[2, 8, 16]"));
  EXPECT_EQ(to_string(parse_graph(text)), text);
}

std::string refusal_of(const DecoderFile& made, const DecoderSizes& sizes = {1, 8}) {
  const std::string bytes = made.bytes();
  try {
    import_decoder(TensorFile::parse(bytes, "made.gguf"), sizes);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ImportDecoder, RefusesWhatItDoesNotKnow) {
  DecoderFile made;
  made.texts["general.architecture"] = "mamba";
  EXPECT_EQ(refusal_of(made), "made.gguf: 'general.architecture' is 'mamba'; expected 'llama'");
  made = {};
  made.texts["llama.rope.scaling.type"] = "yarn";
  EXPECT_THAT(refusal_of(made), HasSubstr("is 'yarn'; expected 'none' or 'linear'"));
  made = {};
  made.texts["llama.rope.scaling.type"] = "linear";
  EXPECT_THAT(refusal_of(made), HasSubstr("'llama.rope.scaling.factor' is missing"));
  made = {};
  made.numbers["block_count"] = 1;  // a tensor that nothing reads
  EXPECT_THAT(refusal_of(made), testing::MatchesRegex("made.gguf: byte [0-9]+: tensor 'blk.1..*"));
}

TEST(ImportDecoder, RefusesDamagedFilesWithThePlace) {
  DecoderFile made;
  made.without = "blk.1.ffn_up.weight";
  EXPECT_EQ(refusal_of(made), "made.gguf: it lacks the tensor 'blk.1.ffn_up.weight'");
  made.without = "token_embd.weight";
  EXPECT_THAT(refusal_of(made), HasSubstr("lacks the tensor 'token_embd.weight'"));
  for (const char* key : {"block_count", "embedding_length", "attention.head_count"}) {
    made = {};
    made.numbers[key] = 0;
    EXPECT_THAT(refusal_of(made), HasSubstr("is '0'; expected a whole number from 1")) << key;
  }
  made = {};
  made.numbers["block_count"] = 3;
  EXPECT_THAT(refusal_of(made), HasSubstr("lacks the tensor 'blk.2."));
  made = {};
  made.numbers["embedding_length"] = 1 << 20;
  EXPECT_THAT(refusal_of(made), HasSubstr("expected [40, 1048576], found [40, 64]"));
  made = {};
  made.numbers["attention.head_count_kv"] = 3;
  EXPECT_THAT(refusal_of(made), HasSubstr("'3'; expected a divisor of 4 heads"));
  made.numbers["attention.head_count_kv"] = 4;
  EXPECT_THAT(refusal_of(made), HasSubstr("tensor 'blk.0.attn_k.weight': expected [64, 64]"));
  made = {};
  made.numbers["rope.dimension_count"] = 18;
  EXPECT_THAT(refusal_of(made), HasSubstr("an even number up to the 16 elements of a head"));
  made = {};
  made.numbers["attention.value_length"] = 8;
  EXPECT_THAT(refusal_of(made), HasSubstr("'8'; expected 16, as keys have"));
}

TEST(ImportDecoder, RefusesSizes) {
  EXPECT_EQ(refusal_of({}, {1, 17}),
            "--dim context=17: expected 1 to 16, the positions of the model");
  EXPECT_EQ(refusal_of({}, {9, 8}), "--dim tokens=9: expected 1 to 8, the size of context");
  EXPECT_EQ(refusal_of({}, {0, 8}), "--dim tokens=0: expected 1 to 8, the size of context");
}

TEST(ImportDecoder, TurnsAPartOfAHead) {
  DecoderFile made;
  made.numbers["rope.dimension_count"] = 8;
  const std::string bytes = made.bytes();
  const Program step(TensorFile::parse(bytes, "made.gguf"), 1);
  const Value& sines = step.graph().values[step.graph().find("rope.sines")];
  ASSERT_EQ(sines.shape, (Shape{8, 8, 2}));
  for (int64_t f = 0; f < 8; ++f) {
    const double angle = 3 * std::pow(100.0, -2.0 * static_cast<double>(f) / 8);
    EXPECT_NEAR(load_element(ElemType::f32, sines.data->data(), (3 * 8 + f) * 2 + 1),
                f < 4 ? std::sin(angle) : 0, 1e-6);
  }
}

}  // namespace
}  // namespace tilewright::graph
