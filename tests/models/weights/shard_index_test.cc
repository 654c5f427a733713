#include "models/weights/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/models/weights/layer_files.h"
#include "tests/runtime/support.h"

namespace tilewright::weights {
namespace {

using test::error_of;
using test::raw;
using test::SafetensorsFile;
using testing::HasSubstr;

std::string refusal_shard_index(const std::string& bytes) {
  return error_of<FileError>([&] { read_shard_index(bytes, "m.index.json"); });
}

TEST(ShardIndex, ReadsTheMapInItsOrder) {
  const std::string text = R"({"metadata": {"total_size": 12, "more": [[1], {"a": null}]},
                               "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors"},
                               "note": "x"})";
  std::vector<ShardEntry> entries = read_shard_index(text, "m.index.json");
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].tensor, "b");
  EXPECT_EQ(entries[0].file, "m-2.safetensors");
  EXPECT_EQ(entries[0].place, text.find(", \"a\": \"m-1"));
  EXPECT_EQ(entries[1].tensor, "a");
  EXPECT_TRUE(is_shard_index("dir/model.safetensors.index.json"));
  EXPECT_FALSE(is_shard_index("dir/model.safetensors"));
}

TEST(ShardIndex, WhatIsNoIndexIsRefusedWithThePlace) {
  EXPECT_THAT(refusal_shard_index(""), HasSubstr("m.index.json: byte 0: the index is no JSON: "));
  EXPECT_EQ(refusal_shard_index("[]"), "m.index.json: byte 1: expected an object, found a list");
  EXPECT_EQ(refusal_shard_index("{}"),
            "m.index.json: byte 2: the index ends; expected 'weight_map', the file of each tensor");
  EXPECT_EQ(refusal_shard_index(R"({"weight_map": 3})"),
            "m.index.json: byte 17: expected an object for 'weight_map', found 3");
  EXPECT_EQ(refusal_shard_index(R"({"weight_map": {"a": ["f"]}})"),
            "m.index.json: byte 22: expected the name of a file for tensor 'a', found a list");
  EXPECT_EQ(refusal_shard_index(R"({"weight_map": {"a": null}})"),
            "m.index.json: byte 25: expected the name of a file for tensor 'a', found null");
  EXPECT_EQ(refusal_shard_index(R"({"weight_map": {"a": {}}})"),
            "m.index.json: byte 22: expected the name of a file for tensor 'a', found an object");
  EXPECT_THAT(refusal_shard_index(R"({"weight_map": {"a": "f",)"),
              HasSubstr(": the index is no JSON: "));
}

TEST(ShardIndex, ATensorHasOnePlace) {
  EXPECT_EQ(refusal_shard_index(R"({"weight_map": {"a": "f", "a": "g"}})"),
            "m.index.json: byte 29: tensor 'a' stands twice");
  EXPECT_EQ(refusal_shard_index(R"({"weight_map": {"a": "f"}, "weight_map": {}})"),
            "m.index.json: byte 39: 'weight_map' stands twice");
}

TEST(ShardIndex, FilesStandBesideIt) {
  for (const char* file : {"", ".", "..", "../f", "/etc/f", "d/f", "f\\u0000g"}) {
    SCOPED_TRACE(file);
    EXPECT_THAT(
        refusal_shard_index(R"({"weight_map": {"a": ")" + std::string(file) + "\"}}"),
        HasSubstr(": expected the name of a file beside the index for tensor 'a', found '"));
  }
}

// Every byte with each of a few changes, and every length: refused with a place, or it means
// something.
TEST(ShardIndex, DamageHasAPlace) {
  const std::string whole = R"({"metadata":{"total_size":3},"weight_map":{"a":"f","b.c":"g"}})";
  auto attempt = [](const std::string& bytes) {
    std::string said = refusal_shard_index(bytes);
    if (said.empty()) return true;
    EXPECT_THAT(said, testing::MatchesRegex("m.index.json: byte [0-9]+: (.|\n)*"));
    return false;
  };
  EXPECT_TRUE(attempt(whole));
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(attempt(whole.substr(0, i))) << "of " << i << " bytes";
    for (int change : {0x01, 0x02, 0x10, 0x80}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      attempt(damaged);
    }
  }
}

class Shards : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::string path = dir_.path(name);
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string open_refusal(const std::string& index) {
    std::string path = write("m.safetensors.index.json", index);
    return error_of<FileError>([&] { TensorFile::open(path); });
  }
  test::TempDir dir_;
};

TEST_F(Shards, TensorsComeOutOfTheirFiles) {
  write("1.safetensors", SafetensorsFile()
                             .add("a", "F32", {2}, raw(std::vector<float>{1, 2}))
                             .add("twice", "F32", {1}, raw(3.0f))
                             .bytes());
  std::string second = write("2.safetensors", SafetensorsFile()
                                                  .add("twice", "F32", {1}, raw(4.0f))
                                                  .add("left out", "F32", {1}, raw(5.0f))
                                                  .bytes());
  std::string path = write("m.safetensors.index.json",
                           R"({"weight_map": {"twice": "2.safetensors", "a": "1.safetensors"}})");
  TensorFile opened = TensorFile::open(path);
  TensorFile file = std::move(opened);
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.files(), 2u);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.view(*file.find("a")).get(1), 2);
  EXPECT_EQ(file.view(*file.find("twice")).get(0), 4);
  EXPECT_EQ(file.path_of(*file.find("twice")), second);
  EXPECT_EQ(file.find("left out"), nullptr);
}

TEST_F(Shards, ALayerMayBeSpreadOverThem) {
  test::LayerNumbers l = test::layer_numbers(32, 16, 16, 4, /*shuffled=*/true);
  const std::string whole = gptq_file(l, /*less_one=*/true).bytes();
  TensorFile together = TensorFile::parse(whole, "m");
  std::string map;
  for (const StoredTensor& t : together.tensors()) {
    SafetensorsFile shard;
    shard.add(t.name, std::string(t.type->name), t.shape, std::string(together.data(t)));
    write(t.name + ".safetensors", shard.bytes());
    map += (map.empty() ? "" : ",") + ("\"" + t.name + "\":\"" + t.name + ".safetensors\"");
  }
  TensorFile file =
      TensorFile::open(write("m.safetensors.index.json", "{\"weight_map\":{" + map + "}}"));
  EXPECT_EQ(file.files(), together.tensors().size());
  QuantizedWeight got = read_layer(file, *find_layer(file, "layer"), {});
  QuantizedWeight want = read_layer(together, *find_layer(together, "layer"), {});
  EXPECT_EQ(dequantize(got), dequantize(want));
}

TEST_F(Shards, AnIndexThatItsFilesDoNotBearOutIsRefused) {
  write("1.safetensors", SafetensorsFile().add("a", "F32", {1}, raw(1.0f)).bytes());
  write("bad.safetensors", "12345678{}");
  EXPECT_THAT(open_refusal(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})"),
              HasSubstr("m.safetensors.index.json: byte 58: tensor 'b' is said to be in "
                        "'2.safetensors', and there is no such file"));
  EXPECT_THAT(open_refusal(R"({"weight_map": {"b": "1.safetensors"}})"),
              HasSubstr("m.safetensors.index.json: byte 36: tensor 'b' is said to be in "
                        "'1.safetensors', which holds no tensor of that name"));
  EXPECT_THAT(open_refusal(R"({"weight_map": {"b": "bad.safetensors"}})"),
              HasSubstr("bad.safetensors: byte 0: expected the length of a safetensors header"));
}

// A fault in the data names the file that holds it.
TEST_F(Shards, DamageInAFileHasItsName) {
  test::LayerNumbers l = test::layer_numbers(32, 16, 16, 4, /*shuffled=*/true);
  l.group_of[5] = 77;
  const std::string bytes = gptq_file(l, /*less_one=*/true).bytes();
  std::string shard = write("1.safetensors", bytes), map;
  TensorFile alone = TensorFile::parse(bytes, "m");
  for (const StoredTensor& t : alone.tensors()) {
    map += (map.empty() ? "" : ",") + ("\"" + t.name + "\":\"1.safetensors\"");
  }
  TensorFile file =
      TensorFile::open(write("m.safetensors.index.json", "{\"weight_map\":{" + map + "}}"));
  EXPECT_THAT(error_of<FileError>([&] { find_layer(file, "layer"); }),
              testing::MatchesRegex(shard + ": byte [0-9]+: expected a group from 0 to 1 .*"));
}

}  // namespace
}  // namespace tilewright::weights
