// Damage to files: at every byte of a header and at every length, a file is either refused with its
// name and a place, or it means something.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"

namespace tilewright::weights {
namespace {

using test::GgufFile;
using test::raw;

struct Outcome {
  int refused = 0, read = 0;
};

// Reads all that there is to read.
void read_everything(const TensorFile& file) {
  for (const StoredTensor& tensor : file.tensors()) {
    if (!tensor.type->elem) continue;
    TensorView view = file.view(tensor);
    for (int64_t i = 0; i < view.count(); ++i) view.get(i);
  }
  for (const LayerEntry& entry : list_layers(file)) {
    if (!entry.layer) {
      EXPECT_THAT(entry.problem, testing::MatchesRegex("m: (byte [0-9]+:|layer '.*' lacks) .*"));
      continue;
    }
    QuantizedWeight weight = read_layer(file, *entry.layer, {});
    EXPECT_EQ(dequantize(weight).size(), static_cast<size_t>(weight.k() * weight.n()));
  }
}

void try_to_read(std::string_view bytes, Outcome* outcome) {
  // A copy that ends where its memory does: a memory checker then sees each byte beyond the end.
  std::vector<char> exact(bytes.begin(), bytes.end());
  try {
    read_everything(TensorFile::parse({exact.data(), exact.size()}, "m"));
    ++outcome->read;
  } catch (const FileError& e) {
    EXPECT_THAT(e.what(), testing::MatchesRegex("m: byte [0-9]+: (.|\n)*"));
    ++outcome->refused;
  }
}

// Every byte of the first `header` with each of a few changes, and every length.
void damage(const std::string& bytes, size_t header) {
  Outcome whole;
  try_to_read(bytes, &whole);
  ASSERT_EQ(whole.read, 1);
  Outcome changed, cut;
  for (size_t i = 0; i < header; ++i) {
    for (int change : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      try_to_read(damaged, &changed);
    }
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    try_to_read(std::string_view(bytes).substr(0, length), &cut);
  }
  EXPECT_EQ(cut.read, 0) << "a file that lacks its end is not whole";
  EXPECT_GT(changed.refused, changed.read / 4);
}

size_t safetensors_header(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return 8 + length;
}

TEST(Damaged, GptqFiles) {
  std::string bytes = gptq_file(test::layer_numbers(32, 32, 16, 4, true), true).bytes();
  damage(bytes, safetensors_header(bytes) + 4 * 32);  // with the group of each row
}

TEST(Damaged, AwqFiles) {
  std::string bytes = awq_file(test::layer_numbers(16, 16, 8, 4)).bytes();
  damage(bytes, safetensors_header(bytes));
}

TEST(Damaged, CompressedTensorsFiles) {
  std::string bytes =
      compressed_tensors_file(test::layer_numbers(32, 8, 16, 4), false, true).bytes();
  damage(bytes, safetensors_header(bytes) + 16);  // with the stored shape
}

TEST(Damaged, GgufFiles) {
  auto make = [] {
    return GgufFile()
        .set("general.alignment", 4, raw(uint32_t{32}))
        .set("general.name", 8, GgufFile::string("model"))
        .set("list", 9, raw(uint32_t{8}) + raw(uint64_t{1}) + GgufFile::string("x"))
        .set("nested", 9,
             raw(uint32_t{9}) + raw(uint64_t{1}) + raw(uint32_t{0}) + raw(uint64_t{2}) + "ab");
  };
  std::string bytes = make()
                          .add("a", 0, {2, 2}, std::string(16, 'a'))
                          .add("b.weight", 2, {32, 2}, std::string(36, 'b'))
                          .add("c.weight", 12, {256, 1}, std::string(144, 'c'))
                          .bytes();
  damage(bytes, bytes.size() - 32 - 64 - 144);
}

}  // namespace
}  // namespace tilewright::weights
