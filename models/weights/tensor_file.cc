#include "models/weights/tensor_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "models/weights/gguf.h"
#include "models/weights/safetensors.h"
#include "models/weights/shard_index.h"
#include "runtime/error.h"

namespace tilewright::weights {

TensorFile::TensorFile(std::string path, Format format, TensorTable table, std::vector<File> files)
    : path_(std::move(path)), format_(format), table_(std::move(table)), files_(std::move(files)) {
  // The names stay where they are when the object moves: a vector hands its elements on.
  for (size_t i = 0; i < table_.tensors.size(); ++i) places_.emplace(table_.tensors[i].name, i);
}

TensorFile TensorFile::parse(std::string_view bytes, const std::string& path) {
  const bool gguf = bytes.substr(0, kGgufMagic.size()) == kGgufMagic;
  TensorTable table = gguf ? read_gguf_table(bytes, path) : read_safetensors_table(bytes, path);
  std::vector<File> files;
  files.push_back({path, bytes, std::nullopt});
  return {path, gguf ? Format::Gguf : Format::Safetensors, std::move(table), std::move(files)};
}

TensorFile TensorFile::open(const std::string& path) {
  MappedFile mapping(path);
  if (is_shard_index(path)) return open_shards(mapping.bytes(), path);
  TensorFile file = parse(mapping.bytes(), path);
  file.files_[0].mapping = std::move(mapping);
  return file;
}

// The tensors that the index names, in its order.
TensorFile TensorFile::open_shards(std::string_view index, const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::map<std::string, size_t> places;  // of files by name
  std::vector<File> files;
  std::vector<std::map<std::string, StoredTensor>> found;  // in each file
  TensorTable table;
  for (const ShardEntry& entry : read_shard_index(index, path)) {
    auto [place, is_new] = places.emplace(entry.file, files.size());
    if (is_new) {
      const std::string shard = (folder / entry.file).string();
      std::error_code ignored;
      if (!std::filesystem::is_regular_file(shard, ignored)) {
        damaged(path, entry.place,
                fmt::format("tensor '{}' is said to be in '{}', and there is no such file",
                            entry.tensor, entry.file));
      }
      MappedFile mapping(shard);
      TensorTable own = read_safetensors_table(mapping.bytes(), shard);
      table.metadata.merge(own.metadata);
      found.emplace_back();
      for (StoredTensor& t : own.tensors) found.back().emplace(t.name, t);
      std::string_view bytes = mapping.bytes();
      files.push_back({shard, bytes, std::move(mapping)});
    }
    auto tensor = found[place->second].find(entry.tensor);
    if (tensor == found[place->second].end()) {
      damaged(path, entry.place,
              fmt::format("tensor '{}' is said to be in '{}', which holds no tensor of that name",
                          entry.tensor, entry.file));
    }
    tensor->second.file = place->second;
    table.tensors.push_back(tensor->second);
  }
  return {path, Format::Safetensors, std::move(table), std::move(files)};
}

const StoredTensor* TensorFile::find(std::string_view name) const {
  auto place = places_.find(name);
  return place == places_.end() ? nullptr : &table_.tensors[place->second];
}

std::string_view TensorFile::data(const StoredTensor& tensor) const {
  return files_[tensor.file].bytes.substr(tensor.offset, tensor.bytes);
}

TensorView TensorFile::view(const StoredTensor& tensor) const {
  if (!tensor.type->elem) {
    throw FileError(fmt::format("{}: tensor '{}' is of type {}, which cannot be read here",
                                path_of(tensor), tensor.name, tensor.type->name));
  }
  return {*tensor.type->elem, tensor.shape, data(tensor).data()};
}

std::string_view to_string(TensorFile::Format format) {
  return format == TensorFile::Format::Gguf ? "gguf" : "safetensors";
}

}  // namespace tilewright::weights
