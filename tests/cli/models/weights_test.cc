// tune-cli weights, and run on tensors and layers out of files of weights.
#include <gmock/gmock.h>

#include <cmath>

#include "models/weights/layers.h"
#include "runtime/tensor/npy.h"
#include "tests/cli/support.h"
#include "tests/models/weights/layer_files.h"

namespace tilewright::cli {
namespace {

using test::GgufFile;
using test::layer_numbers;
using test::raw;
using test::SafetensorsFile;
using testing::HasSubstr;

constexpr int64_t kWeightsM = 3, kWeightsN = 32, kWeightsK = 64;
constexpr const char* kWeightsSpec = "matmul:m=3,n=32,k=64";

class Weights : public Cli {
 protected:
  // A, whose elements are small whole numbers.
  void SetUp() override {
    Cli::SetUp();
    HostArray a("A", ElemType::f32, {kWeightsM, kWeightsK});
    for (int64_t i = 0; i < a.count(); ++i) a.set(i, a_at(i / kWeightsK, i % kWeightsK));
    write_npy(dir_ / "a.npy", a);
  }
  static double a_at(int64_t i, int64_t k) { return static_cast<double>((i * 5 + k * 3) % 7 - 3); }

  // The result with --in B=`source`, against the product with b(k, j). Few of its bits are in use,
  // so every order of summation gives the same, or nearly so.
  template <class B>
  void expect_product(const std::string& source, B b, const std::string& spec = kWeightsSpec,
                      const std::string& options = "") {
    Ran ran = run("run --default --threads 1 --in A=a.npy --in 'B=" + source + "' --out C=c.npy " +
                  options + " " + spec);
    ASSERT_EQ(ran.code, 0) << ran.err;
    NpyArray c = read_npy(dir_ / "c.npy");
    for (int64_t i = 0; i < kWeightsM; ++i) {
      for (int64_t j = 0; j < kWeightsN; ++j) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < kWeightsK; ++k) {
          sum += a_at(i, k) * b(k, j);
          size += std::abs(a_at(i, k) * b(k, j));
        }
        ASSERT_NEAR(c.get(i * kWeightsN + j), sum, 1e-5 * size) << source << " " << i << ", " << j;
      }
    }
  }

  void expect_refused(const std::string& source, const std::string& message,
                      const std::string& spec = kWeightsSpec) {
    fs::remove(dir_ / "c.npy");  // of an earlier run
    Ran ran = run("run --default --in A=a.npy --in 'B=" + source + "' --out C=c.npy " + spec);
    EXPECT_EQ(ran.code, 2) << source;
    EXPECT_THAT(ran.err, HasSubstr(message)) << source;
    EXPECT_FALSE(fs::exists(dir_ / "c.npy"));
  }
};

// Elements of a plain B [kWeightsN, kWeightsK], as a linear layer stores them.
float plain_at(int64_t j, int64_t k) { return static_cast<float>((j * 11 + k * 5) % 13 - 6) / 4; }

std::string plain_bf16() {
  std::vector<uint16_t> bits;
  for (int64_t j = 0; j < kWeightsN; ++j) {
    for (int64_t k = 0; k < kWeightsK; ++k) bits.push_back(test::bfloat_bits(plain_at(j, k)));
  }
  return raw(bits);
}

TEST_F(Weights, RunTakesAPlainTensorOfEitherFormat) {
  write("m.safetensors", SafetensorsFile()
                             .add("norm", "F32", {2}, std::string(8, '\0'))
                             .add("q.weight", "BF16", {kWeightsN, kWeightsK}, plain_bf16())
                             .bytes());
  write("m.gguf", GgufFile()
                      .add("q.weight", 30, {kWeightsK, kWeightsN}, plain_bf16())
                      .add("norm", 0, {2}, std::string(8, '\0'))
                      .bytes());
  auto b = [](int64_t k, int64_t j) { return plain_at(j, k); };
  expect_product("m.safetensors:q.weight", b, "matmul:m=3,n=32,k=64,trans_b=true");
  expect_product("m.gguf:q.weight", b, "matmul:m=3,n=32,k=64,trans_b=true");
}

TEST_F(Weights, ModelsInSeveralFilesGoByTheirIndex) {
  write("1.safetensors", SafetensorsFile().add("norm", "F32", {2}, std::string(8, '\0')).bytes());
  write("2.safetensors",
        SafetensorsFile().add("q.weight", "BF16", {kWeightsN, kWeightsK}, plain_bf16()).bytes());
  write("m.safetensors.index.json",
        R"({"weight_map": {"norm": "1.safetensors", "q.weight": "2.safetensors"}})");
  expect_product(
      "m.safetensors.index.json:q.weight", [](int64_t k, int64_t j) { return plain_at(j, k); },
      "matmul:m=3,n=32,k=64,trans_b=true");
  expect_refused("none.safetensors.index.json:x",
                 "none.safetensors.index.json: cannot be read: No such file");
  expect_refused("m.safetensors.index.json:x", "has no tensor or quantized layer 'x'");
  Json json = run("weights m.safetensors.index.json --json").json();
  EXPECT_EQ(json["tensors"][0]["file"], "1.safetensors");
  EXPECT_EQ(json["tensors"][1]["file"], "2.safetensors");
  EXPECT_THAT(run("weights m.safetensors.index.json").out,
              HasSubstr("m.safetensors.index.json: safetensors, 2 files, 2 tensors, "));
  write("m.safetensors.index.json", R"({"weight_map": {"q": "2.safetensors"}})");
  expect_refused("m.safetensors.index.json:q",
                 "m.safetensors.index.json: byte 36: tensor 'q' is said to be in '2.safetensors', "
                 "which holds no tensor of that name");
}

TEST_F(Weights, PathsMayHaveColons) {
  fs::create_directories(dir_ / "a:b");
  write("a:b/m.safetensors",
        SafetensorsFile().add("x:y", "BF16", {kWeightsN, kWeightsK}, plain_bf16()).bytes());
  expect_product(
      "a:b/m.safetensors:x:y", [](int64_t k, int64_t j) { return plain_at(j, k); },
      "matmul:m=3,n=32,k=64,trans_b=true");
}

TEST_F(Weights, RunTakesTheValuesOfAQuantizedLayer) {
  test::LayerNumbers l = layer_numbers(kWeightsK, kWeightsN, 16, 4, /*shuffled=*/true);
  write("m.safetensors", gptq_file(l, /*less_one=*/true).bytes());
  auto b = [&](int64_t k, int64_t j) {
    int64_t g = l.group(k);
    int difference = static_cast<int>(l.q_at(k, j)) - static_cast<int>(l.zero_at(g, j));
    return test::to_half(l.scale_at(g, j) * static_cast<float>(difference));
  };
  expect_product("m.safetensors:layer", b);
  expect_product("m.safetensors:layer", b, "matmul:m=3,n=32,k=64,trans_b=true");
  expect_product("m.safetensors:layer", b, "matmul:m=3,n=32,k=64", "--gptq-format gptq");
}

TEST_F(Weights, TheKindOfGptqComesFromAnOptionOrTheConfiguration) {
  test::LayerNumbers l = layer_numbers(kWeightsK, kWeightsN, 16, 4);
  write("m.safetensors", gptq_file(l, /*less_one=*/false).bytes());
  auto b = [&](int64_t k, int64_t j) {
    int difference = static_cast<int>(l.q_at(k, j)) - static_cast<int>(l.zero_at(k / 16, j));
    return test::to_half(l.scale_at(k / 16, j) * static_cast<float>(difference));
  };
  expect_product("m.safetensors:layer", b, kWeightsSpec, "--gptq-format gptq_v2");
  write("quantize_config.json", R"({"bits": 4, "checkpoint_format": "gptq_v2"})");
  expect_product("m.safetensors:layer", b);
  EXPECT_EQ(run(std::string("run --gptq-format v3 ") + kWeightsSpec).code, 2);
}

TEST_F(Weights, RunTakesTheValuesOfBlocks) {
  // Q8_0: an f16 scale and 32 bytes.
  std::string blocks;
  for (int64_t j = 0; j < kWeightsN; ++j) {
    for (int64_t block = 0; block < kWeightsK / 32; ++block) {
      blocks += raw(test::half_bits(0.25f));
      for (int64_t k = 0; k < 32; ++k) {
        blocks += static_cast<char>(4 * plain_at(j, block * 32 + k));
      }
    }
  }
  write("m.gguf", GgufFile().add("blk.0.q", 8, {kWeightsK, kWeightsN}, blocks).bytes());
  expect_product("m.gguf:blk.0.q", [](int64_t k, int64_t j) { return plain_at(j, k); });
}

// (q - zero) * scale of unsigned numbers, which a kernel on packed integers does not round.
double worth(const test::LayerNumbers& l, int64_t k, int64_t j) {
  int64_t g = l.group(k);
  int difference = static_cast<int>(l.q_at(k, j)) - static_cast<int>(l.zero_at(g, j));
  return static_cast<double>(l.scale_at(g, j)) * difference;
}

TEST_F(Weights, RunTakesPackedIntegersWithTheirScalesAndZeroPoints) {
  test::LayerNumbers l = layer_numbers(kWeightsK, kWeightsN, 16, 4);
  auto b = [&](int64_t k, int64_t j) { return worth(l, k, j); };
  const std::string spec = "matmul:m=3,n=32,k=64,w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4";
  write("gptq.safetensors", gptq_file(l, /*less_one=*/true).bytes());
  expect_product("gptq.safetensors:layer", b, spec);
  expect_product("gptq.safetensors:layer", b, spec + ",trans_b=true");
  write("awq.safetensors", awq_file(l).bytes());
  expect_product("awq.safetensors:layer", b, spec);
  expect_refused("awq.safetensors:layer",
                 "the layer has zero points and the spec has none; it takes w.dtype=u4,w.group=16",
                 "matmul:m=3,n=32,k=64,w.dtype=u4,w.group=16,w.scale=f16");
  expect_refused("awq.safetensors:layer' --in 'B.scale=a.npy",
                 "operand 'B.scale' comes with the layer of 'B'; leave it out", spec);
}

TEST_F(Weights, ActOrderTakesTheColumnsOfAAlong) {
  test::LayerNumbers l = layer_numbers(kWeightsK, kWeightsN, 16, 4, /*shuffled=*/true);
  auto b = [&](int64_t k, int64_t j) { return worth(l, k, j); };
  write("m.safetensors", gptq_file(l, /*less_one=*/true).bytes());
  const std::string spec = "matmul:m=3,n=32,k=64,w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4";
  expect_product("m.safetensors:layer", b, spec);
  HostArray a("A", ElemType::f32, {kWeightsK, kWeightsM});
  write_npy(dir_ / "a.npy", a);
  expect_refused("m.safetensors:layer",
                 "has its rows in act-order, which only B of a matmul without",
                 spec + ",trans_a=true");
}

TEST_F(Weights, SymmetricLayersAndBlocksHaveNoZeroPoints) {
  test::LayerNumbers l = layer_numbers(kWeightsK, kWeightsN, 32, 4);
  std::fill(l.zero.begin(), l.zero.end(), 8);
  for (float& scale : l.scale) scale = test::to_half(test::to_bfloat(scale + 0.01f));
  auto b = [&](int64_t k, int64_t j) { return worth(l, k, j); };
  write("ct.safetensors", compressed_tensors_file(l, /*symmetric=*/true).bytes());
  expect_product("ct.safetensors:layer", b,
                 "matmul:m=3,n=32,k=64,w.dtype=i4,w.group=32,w.scale=bf16");
  std::string blocks;  // Q4_0
  for (int64_t j = 0; j < kWeightsN; ++j) {
    for (int64_t g = 0; g < kWeightsK / 32; ++g) {
      blocks += raw(test::half_bits(l.scale_at(g, j)));
      for (int64_t k = g * 32; k < g * 32 + 16; ++k) {
        blocks += static_cast<char>(l.q_at(k, j) | l.q_at(k + 16, j) << 4);
      }
    }
  }
  write("m.gguf", GgufFile().add("blk.0.q", 2, {kWeightsK, kWeightsN}, blocks).bytes());
  expect_product("m.gguf:blk.0.q", b, "matmul:m=3,n=32,k=64,w.dtype=i4,w.group=32,w.scale=f16");
}

// Offsets come along with the scales, in their type or another that holds them.
TEST_F(Weights, RunTakesTheOffsetsOfGguf) {
  test::LayerNumbers l = layer_numbers(kWeightsK, kWeightsN, 32, 4);
  auto offset = [](int64_t g, int64_t j) { return static_cast<float>((g * 7 + j) % 5) / 4 - 1; };
  auto b = [&](int64_t k, int64_t j) {
    return l.scale_at(l.group(k), j) * static_cast<float>(l.q_at(k, j)) + offset(l.group(k), j);
  };
  std::string blocks;
  for (int64_t j = 0; j < kWeightsN; ++j) {
    for (int64_t g = 0; g < kWeightsK / 32; ++g) {
      blocks += raw(test::half_bits(l.scale_at(g, j))) + raw(test::half_bits(offset(g, j)));
      for (int64_t k = g * 32; k < g * 32 + 16; ++k) {
        blocks += static_cast<char>(l.q_at(k, j) | l.q_at(k + 16, j) << 4);
      }
    }
  }
  write("m.gguf", GgufFile().add("q", 3, {kWeightsK, kWeightsN}, blocks).bytes());
  const std::string spec = "matmul:m=3,n=32,k=64,w.dtype=u4,w.group=32,w.scale=f16";
  expect_product("m.gguf:q", b, spec + ",w.offset=f16");
  expect_product("m.gguf:q", b, spec + ",trans_b=true,w.offset=f32");
  expect_product("m.gguf:q", b);
  expect_refused("m.gguf:q",
                 "m.gguf:q: the layer has offsets and the spec has none; it takes "
                 "w.dtype=u4,w.group=32,w.scale=f16,w.offset=f16",
                 spec);
}

TEST_F(Weights, WhatDoesNotFitIsRefused) {
  write("m.safetensors", awq_file(layer_numbers(kWeightsK, kWeightsN, 16, 4)).bytes());
  write("other.gguf", GgufFile().add("iq", 20, {32, 2}, std::string(36, '\0')).bytes());
  expect_refused("m.safetensors:other",
                 "--in B: m.safetensors has no tensor or quantized layer 'other'; tune-cli weights "
                 "'m.safetensors' lists what there is");
  expect_refused("m.safetensors", "--in B: expected m.safetensors:TENSOR; tune-cli weights");
  expect_refused("m.safetensors:", "--in B: expected m.safetensors:TENSOR; tune-cli weights");
  expect_refused("m.safetensors:layer",
                 "m.safetensors:layer: shape [64, 32] does not fit operand 'B'",
                 "matmul:m=3,n=16,k=64");
  expect_refused("m.safetensors:layer.scales",
                 "m.safetensors:layer.scales: shape [4, 32] does not");
  expect_refused("none.gguf:x", "none.gguf: cannot be read: No such file");
  expect_refused("other.gguf:iq", "tensor 'iq' is of type IQ4_NL, which cannot be read here");
  write("bad.safetensors", "12345678{}");
  expect_refused("bad.safetensors:x", "bad.safetensors: byte 0: expected the length of a");
}

TEST_F(Weights, ListsTensorsAndLayers) {
  SafetensorsFile made =
      gptq_file(layer_numbers(kWeightsK, kWeightsN, 16, 4, true), true, true, "h.0.q");
  made.add("half.qweight", "I32", {1, 1}, std::string(4, '\0'));
  write("m.safetensors", made.bytes());
  Ran ran = run("weights m.safetensors --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json json = ran.json();
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["metadata"]["format"], "pt");
  ASSERT_EQ(json["tensors"].size(), 5u);
  EXPECT_EQ(json["tensors"][1]["name"], "h.0.q.qweight");
  EXPECT_EQ(json["tensors"][1]["type"], "I32");
  EXPECT_EQ(json["tensors"][1]["shape"], Json({8, 32}));
  EXPECT_EQ(json["tensors"][1]["bytes"], 1024);
  ASSERT_EQ(json["layers"].size(), 2u);
  Json layer = json["layers"][0];
  EXPECT_EQ(layer["name"], "h.0.q");
  EXPECT_EQ(layer["format"], "gptq");
  EXPECT_EQ(layer["k"], kWeightsK);
  EXPECT_EQ(layer["n"], kWeightsN);
  EXPECT_EQ(layer["act_order"], true);
  EXPECT_EQ(layer["w"], "w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4");
  EXPECT_THAT(json["layers"][1]["problem"].get<std::string>(),
              HasSubstr("layer 'half' lacks its tensor 'half.qzeros'"));
  Ran text = run("weights m.safetensors");
  EXPECT_THAT(text.out, HasSubstr("m.safetensors: safetensors, 5 tensors, "));
  EXPECT_THAT(text.out, HasSubstr("gptq, 4 bits, k=64 n=32, groups of 16, act-order; w.dtype=u4,"));
  EXPECT_THAT(text.out, HasSubstr("cannot be read: m.safetensors: layer "));
}

TEST_F(Weights, ListsBlocksAndMetadataOfGguf) {
  write("m.gguf", GgufFile()
                      .set("general.architecture", 8, GgufFile::string("llama"))
                      .add("blk.0.k", 12, {256, 2}, std::string(288, '\0'))
                      .bytes());
  Ran ran = run("weights m.gguf --json");
  ASSERT_EQ(ran.code, 0) << ran.err;
  Json json = ran.json();
  EXPECT_EQ(json["metadata"]["general.architecture"], "llama");
  EXPECT_EQ(json["tensors"][0]["shape"], Json({2, 256}));
  EXPECT_EQ(json["layers"][0]["format"], "Q4_K");
  EXPECT_EQ(json["layers"][0]["zeros"], "offsets");
  EXPECT_EQ(json["layers"][0]["w"], "w.dtype=u4,w.group=32,w.scale=f32,w.offset=f32");
  EXPECT_THAT(run("weights m.gguf").out, HasSubstr("w.offset=f32"));
}

TEST_F(Weights, AFileThatIsDamagedOrMissingIsRefused) {
  write("m.gguf", "GGUF");
  Ran ran = run("weights m.gguf");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("m.gguf: byte 4: expected the version of 4 bytes"));
  EXPECT_EQ(run("weights none.safetensors").code, 2);
  EXPECT_EQ(run("weights").code, 2);
}

}  // namespace
}  // namespace tilewright::cli
