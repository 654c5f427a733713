// Files of named tensors: safetensors, one or several under an index, and GGUF, read in place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/weights/mapped_file.h"
#include "models/weights/storage_type.h"
#include "runtime/tensor/tensor_view.h"

namespace tilewright::weights {

// The most elements that a tensor of a file may have.
inline constexpr int64_t kMaxCount = int64_t{1} << 56;

struct StoredTensor {
  std::string name;
  const StorageType* type = nullptr;
  std::vector<int64_t> shape;  // row-major, as NumPy has it; empty: one number
  int64_t count = 0;
  uint64_t offset = 0;  // of its first byte in its file
  uint64_t bytes = 0;
  size_t file = 0;  // of several under one index, which one
};

// The content of a file's header, in the order of the data.
struct TensorTable {
  std::vector<StoredTensor> tensors;
  // The header's other entries; arrays of a GGUF file as "[32000 strings]".
  std::map<std::string, std::string> metadata;
};

// A file whose header has been checked whole: every tensor has a known type, a size that fits its
// shape, and a place of its own inside the file. Data is touched only when it is asked for. Of an
// index (shard_index.h) this holds for all files that it names; its tensors are those of the index.
class TensorFile {
 public:
  enum class Format : uint8_t { Safetensors, Gguf };

  // Maps the file, and those that an index names. Throws FileError that begins with the path when one
  // cannot be read, and with the offset and what was expected there when it is damaged.
  static TensorFile open(const std::string& path);
  // The same for the bytes of a file that is called `path`; they must outlive the object.
  static TensorFile parse(std::string_view bytes, const std::string& path);

  const std::string& path() const { return path_; }
  // The file that holds the tensor: `path()`, or one beside that index.
  const std::string& path_of(const StoredTensor& tensor) const { return files_[tensor.file].path; }
  size_t files() const { return files_.size(); }
  Format format() const { return format_; }
  const std::vector<StoredTensor>& tensors() const { return table_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return table_.metadata; }

  const StoredTensor* find(std::string_view name) const;  // null for an unknown name
  std::string_view data(const StoredTensor& tensor) const;
  // Throws FileError for a tensor whose type has no element type of ours.
  TensorView view(const StoredTensor& tensor) const;

 private:
  struct File {
    std::string path;
    std::string_view bytes;
    std::optional<MappedFile> mapping;
  };

  TensorFile(std::string path, Format format, TensorTable table, std::vector<File> files);
  static TensorFile open_shards(std::string_view index, const std::string& path);

  std::string path_;
  Format format_;
  TensorTable table_;
  std::map<std::string_view, size_t, std::less<>> places_;  // into table_.tensors
  std::vector<File> files_;
};

std::string_view to_string(TensorFile::Format format);

}  // namespace tilewright::weights
