#include "runtime/weights/tensor_file.h"

#include <fmt/format.h>

#include "runtime/error.h"
#include "runtime/weights/gguf.h"
#include "runtime/weights/safetensors.h"

namespace tilewright::weights {

TensorFile::TensorFile(std::string path, Format format, TensorTable table, std::string_view bytes)
    : path_(std::move(path)), format_(format), table_(std::move(table)), bytes_(bytes) {
  // The names stay where they are when the object moves: a vector hands its elements on.
  for (size_t i = 0; i < table_.tensors.size(); ++i) places_.emplace(table_.tensors[i].name, i);
}

TensorFile TensorFile::parse(std::string_view bytes, const std::string& path) {
  if (bytes.substr(0, kGgufMagic.size()) == kGgufMagic) {
    return {path, Format::Gguf, read_gguf_table(bytes, path), bytes};
  }
  return {path, Format::Safetensors, read_safetensors_table(bytes, path), bytes};
}

TensorFile TensorFile::open(const std::string& path) {
  MappedFile mapping(path);
  TensorFile file = parse(mapping.bytes(), path);
  file.mapping_ = std::move(mapping);
  return file;
}

const StoredTensor* TensorFile::find(std::string_view name) const {
  auto place = places_.find(name);
  return place == places_.end() ? nullptr : &table_.tensors[place->second];
}

std::string_view TensorFile::data(const StoredTensor& tensor) const {
  return bytes_.substr(tensor.offset, tensor.bytes);
}

TensorView TensorFile::view(const StoredTensor& tensor) const {
  if (!tensor.type->elem) {
    throw FileError(fmt::format("{}: tensor '{}' is of type {}, which cannot be read here", path_,
                                tensor.name, tensor.type->name));
  }
  return {*tensor.type->elem, tensor.shape, bytes_.data() + tensor.offset};
}

std::string_view to_string(TensorFile::Format format) {
  return format == TensorFile::Format::Gguf ? "gguf" : "safetensors";
}

}  // namespace tilewright::weights
