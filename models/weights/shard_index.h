// Models whose tensors are spread over several safetensors files: `model.safetensors.index.json`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::weights {

// Where an index says that a tensor is.
struct ShardEntry {
  std::string tensor;
  std::string file;    // its name in the folder of the index
  uint64_t place = 0;  // in the index, behind that name
};

// Reads the bytes of an index that is called `path`: {"metadata": …, "weight_map": {"TENSOR":
// "FILE", …}}, entries in their order. Throws FileError with the byte and what was expected there
// when it is damaged, names a tensor twice, or a file that is not plainly one beside it.
std::vector<ShardEntry> read_shard_index(std::string_view bytes, const std::string& path);

// Whether files of this name are such indices.
bool is_shard_index(std::string_view path);

}  // namespace tilewright::weights
