// How the elements of a stored tensor are encoded: the types that safetensors and GGUF files name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/type.h"

namespace tilewright::weights {

// Elements are stored in blocks of `block` elements, each of `block_bits` bits; plain types have
// blocks of one element. `elem` is the element type of ours with the same bits (sub-byte types:
// lowest bits first), where there is one: such tensors are read as they lie.
struct StorageType {
  std::string_view name;  // as its format calls it: "BF16", "Q4_K"
  std::optional<ElemType> elem;
  int64_t block;
  int64_t block_bits;
};

// The type that safetensors headers call `name`, or null.
const StorageType* safetensors_type(std::string_view name);
// The type that GGUF files number so, or null.
const StorageType* gguf_type(uint32_t number);
// "BOOL, U8, …": for messages that list what would be accepted.
std::string safetensors_type_names();

// The bytes of `count` elements, or nothing when they are no whole number of blocks and bytes, or
// more than 64 bits can count.
std::optional<uint64_t> stored_bytes(const StorageType& type, uint64_t count);

}  // namespace tilewright::weights
