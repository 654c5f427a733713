// Files of weights by the C interface: what they hold, and how their layers fill a kernel's operands.
#include <cstring>
#include <fstream>
#include <functional>

#include "tests/models/weights/layer_files.h"
#include "tests/serving/fixture.h"
#include "tilewright/tilewright.hpp"

namespace tilewright::serving::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kK = 16, kN = 8;

std::vector<float> counted(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i * 5 % 11) - 5);
  return values;
}

// A file with a plain weight, and GPTQ layers whose rows are in order or not.
class WeightFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_.path(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string plain() {
    return write("plain.safetensors", test::SafetensorsFile()
                                          .add("w", "F32", {kK, kN}, test::raw(counted(kK * kN)))
                                          .add("b", "BF16", {3}, std::string(6, '\1'))
                                          .add("none", "F32", {0, 4}, "")
                                          .bytes());
  }

  test::TempDir folder_;
};

std::string what_of(const std::function<void()>& call, tw_status status) {
  try {
    call();
  } catch (const tw::Error& e) {
    EXPECT_EQ(e.status(), status) << e.what();
    return e.what();
  }
  return "";
}

TEST_F(WeightFiles, ATensorIsListedAndFillsAKernel) {
  Database db{{.spec = "matmul:m=4,n=8,k=16", .tag = 2}};
  tw::Prepared prepared = tw::Library(db.path()).prepare({.specs = {"matmul:m=4,n=8,k=16"}});
  tw::Kernel kernel = prepared.find("matmul:m=4,n=8,k=16");
  const std::string path = plain();
  tw::WeightFile file(path);
  ASSERT_EQ(file.tensors().size(), 3u);
  const tw_stored_tensor w = file.tensors()[0];
  EXPECT_STREQ(w.name, "w");
  EXPECT_STREQ(w.type, "F32");
  EXPECT_EQ(w.ndim, 2);
  EXPECT_EQ(w.shape[0], kK);
  EXPECT_EQ(w.bytes, static_cast<size_t>(kK * kN * 4));
  EXPECT_EQ(w.dtype.code, kDLFloat);
  const std::vector<float> values = counted(kK * kN);
  EXPECT_EQ(std::memcmp(w.data, values.data(), w.bytes), 0);
  EXPECT_TRUE(file.layers().empty());

  tw::Operands read = file.read("w", kernel);
  ASSERT_EQ(read.tensors().size(), 1u);
  EXPECT_STREQ(read.tensors()[0].operand, "B");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(read.tensors()[0].tensor->data) % 64, 0u);
  tw::Weights weights = kernel.pack(read.tensors());
  Floats a({4, kK}, 1), b({kK, kN}), c({4, kN});
  std::memcpy(b.tensor.data, values.data(), w.bytes);
  kernel.launch({.tensors = {&a.tensor, nullptr, &c.tensor}, .weights = &weights});
  EXPECT_EQ(product_fault(a, b, c, 2), "");
}

TEST_F(WeightFiles, ALayerComesAsStoredOrAsItsValues) {
  const test::LayerNumbers l = test::layer_numbers(32, 8, 16, 4);
  const std::string path = write("gptq.safetensors", test::gptq_file(l, true).bytes());
  tw::WeightFile file(path);
  ASSERT_EQ(file.layers().size(), 1u);
  const tw_stored_layer told = file.layers()[0];
  EXPECT_STREQ(told.name, "layer");
  EXPECT_STREQ(told.format, "gptq");
  EXPECT_STREQ(told.problem, "");
  EXPECT_STREQ(told.keys, "w.dtype=u4,w.group=16,w.scale=f16,w.zero=u4");
  EXPECT_THAT((std::vector<int64_t>{told.k, told.n, told.group, told.bits, told.act_order}),
              ElementsAre(32, 8, 16, 4, 0));

  const tw::Operands stored = file.read("layer", "W");
  std::vector<std::string> names;
  for (const tw_named_tensor& named : stored.tensors()) names.emplace_back(named.operand);
  EXPECT_THAT(names, ElementsAre("W", "W.scale", "W.zero"));
  const DLTensor& codes = *stored.tensors()[0].tensor;
  EXPECT_EQ(codes.dtype.bits, 4);
  EXPECT_EQ(codes.shape[0], 32);
  const auto* bytes = static_cast<const uint8_t*>(codes.data);
  for (int64_t i = 0; i < 32 * 8; ++i) {
    ASSERT_EQ(bytes[i / 2] >> (i % 2 * 4) & 15, l.q[static_cast<size_t>(i)]) << i;
  }
  EXPECT_TRUE(stored.order().empty());
  // gptq_v2 stores zero points as they are: the same file has others then.
  const tw::Operands other = file.read("layer", "W", "gptq_v2");
  const auto zero = [](const tw::Operands& read) {
    return *static_cast<const uint8_t*>(read.tensors()[2].tensor->data) & 15;
  };
  EXPECT_EQ((zero(other) + 1) & 15, zero(stored));
}

TEST_F(WeightFiles, AKernelWithoutScalesTakesTheValues) {
  Database db{{.spec = "matmul:m=4,n=8,k=16", .tag = 3}};
  tw::Prepared prepared = tw::Library(db.path()).prepare({.specs = {"matmul:m=4,n=8,k=16"}});
  tw::Kernel kernel = prepared.find("matmul:m=4,n=8,k=16");
  const test::LayerNumbers l = test::layer_numbers(kK, kN, 8, 4, /*shuffled=*/true);
  tw::WeightFile file(write("gptq.safetensors", test::gptq_file(l, true).bytes()));
  EXPECT_EQ(file.layers()[0].act_order, 1);
  const tw::Operands read = file.read("layer", kernel);
  ASSERT_EQ(read.tensors().size(), 1u);
  EXPECT_TRUE(read.order().empty()) << "values are in their own order";
  const auto* values = static_cast<const float*>(read.tensors()[0].tensor->data);
  for (int64_t i = 0; i < kK; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      const int64_t g = l.group(i);
      const float difference =
          static_cast<float>(l.q_at(i, j)) - static_cast<float>(l.zero_at(g, j));
      ASSERT_EQ(values[i * kN + j], test::to_half(difference * l.scale_at(g, j))) << i << ", " << j;
    }
  }
  // As it is stored its rows come by groups, and the order says which they are.
  const std::vector<int64_t> order = file.read("layer").order();
  ASSERT_EQ(order.size(), static_cast<size_t>(kK));
  for (size_t r = 1; r < order.size(); ++r) EXPECT_LE(l.group(order[r - 1]), l.group(order[r]));
}

TEST_F(WeightFiles, RefusalsNameTheFileAndWhatIsThere) {
  EXPECT_THAT(what_of([] { tw::WeightFile("/nowhere/w.gguf"); }, TW_ERROR_FILE),
              HasSubstr("/nowhere/w.gguf: cannot be read"));
  const std::string damaged = write("torn.safetensors", "\x10");
  EXPECT_THAT(what_of([&] { tw::WeightFile f(damaged); }, TW_ERROR_FILE),
              HasSubstr("torn.safetensors: byte 1: the file ends"));
  tw::WeightFile file(plain());
  EXPECT_THAT(what_of([&] { file.read("v"); }, TW_ERROR_FILE),
              HasSubstr("plain.safetensors: there is no tensor or quantized layer 'v'"));
  EXPECT_THAT(what_of([&] { file.read("none"); }, TW_ERROR_FILE),
              HasSubstr("tensor 'none' is [0, 4], which has no elements"));
  Database db{{.spec = "matmul:m=1..4,n=8,k=16", .dynamic = true}};
  tw::Prepared prepared = tw::Library(db.path()).prepare({.specs = {"matmul:m=1..4,n=8,k=16"}});
  tw::Kernel kernel = prepared.find("matmul:m=1..4,n=8,k=16");
  EXPECT_THAT(what_of([&] { file.read("b", kernel); }, TW_ERROR_FILE),
              HasSubstr("shape [3] does not fit operand 'B', which is f32[16, 8]"));
  EXPECT_THAT(what_of([&] { file.read("w", kernel, "X"); }, TW_ERROR_ARGUMENT),
              HasSubstr("'X' is no operand of matmul:m=1..4,n=8,k=16; it takes A, B, C"));
  EXPECT_THAT(what_of([&] { file.read("w", kernel, "A"); }, TW_ERROR_ARGUMENT),
              HasSubstr("operand 'A' of matmul:m=1..4,n=8,k=16 has sizes that are known only at"));
  EXPECT_THAT(what_of([&] { file.read("w", "B", "v3"); }, TW_ERROR_ARGUMENT),
              HasSubstr("gptq_format is 'v3'; expected gptq or gptq_v2"));
  auto told = TW_INIT(tw_stored_tensor);
  tw_weight_file* opened = nullptr;
  ASSERT_EQ(tw_open_weights(plain().c_str(), &opened), TW_OK);
  EXPECT_EQ(tw_stored_tensor_at(opened, 3, &told), TW_ERROR_ARGUMENT);
  EXPECT_THAT(tw_last_error(), HasSubstr("index is 3; there are 3 tensors"));
  EXPECT_EQ(tw_open_weights(nullptr, &opened), TW_ERROR_ARGUMENT);
  EXPECT_EQ(tw_read_weights(opened, nullptr, nullptr, nullptr), TW_ERROR_ARGUMENT);
  tw_close_weights(opened);
  EXPECT_EQ(tw_stored_tensor_count(nullptr), 0u);
  EXPECT_EQ(tw_stored_layer_count(nullptr), 0u);
  EXPECT_EQ(tw_operands_count(nullptr), 0u);
  EXPECT_EQ(tw_operands_tensors(nullptr), nullptr);
  EXPECT_EQ(tw_operands_order(nullptr, nullptr), nullptr);
  EXPECT_STREQ(tw_status_name(TW_ERROR_FILE), "file");
}

TEST_F(WeightFiles, ADamagedLayerIsListedWithItsProblem) {
  test::SafetensorsFile bytes;
  bytes.add("layer.qweight", "I32", {4, 8}, std::string(128, '\0'));
  tw::WeightFile file(write("half.safetensors", bytes.bytes()));
  ASSERT_EQ(file.layers().size(), 1u);
  EXPECT_THAT(file.layers()[0].problem, HasSubstr("qzeros"));
  EXPECT_STREQ(file.layers()[0].keys, "");
  EXPECT_EQ(file.layers()[0].k, 0);
}

}  // namespace
}  // namespace tilewright::serving::testing
