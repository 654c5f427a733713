// The formats of quantized layers. Each is one row of the table that layers.cc reads, and one file.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "models/weights/layers.h"

namespace tilewright::weights {

// A format whose layers are several tensors with a common beginning of their names.
struct Scheme {
  std::string_view marker;  // a layer NAME has a tensor NAME + marker
  // The layer of that name, whose marker is there; nothing when it is of another format with the
  // same marker. Throws FileError as find_layer().
  std::optional<Layer> (*describe)(const TensorFile& file, const std::string& name);
  QuantizedWeight (*read)(const TensorFile& file, const Layer& layer, const LayerOptions& options,
                          const std::string& operand);
};

extern const Scheme kGptq;
extern const Scheme kAwq;
extern const Scheme kCompressedTensors;

// Tensors of a GGUF file whose type has blocks that are known: layers of their own.
bool is_block_format(std::string_view type);
Layer describe_blocks(const TensorFile& file, const StoredTensor& tensor);
QuantizedWeight read_blocks(const TensorFile& file, const Layer& layer, const std::string& operand);

// A tensor of a layer. Throws FileError when it is missing, and with its place when it has another
// type or number of axes.
const StoredTensor& part(const TensorFile& file, const std::string& layer, std::string_view suffix,
                         std::initializer_list<ElemType> types, size_t axes);
// Throws FileError with the place of the tensor.
[[noreturn]] void bad_part(const TensorFile& file, const StoredTensor& tensor,
                           const std::string& what);

// The types that scales are stored in.
inline constexpr std::initializer_list<ElemType> kScaleTypes = {ElemType::f16, ElemType::bf16,
                                                                ElemType::f32};

// An array [rows, columns] of zeros for a part of an operand: `suffix` is "" or ".scale" and so on.
HostArray part_array(const std::string& operand, std::string_view suffix, ElemType elem,
                     int64_t rows, int64_t columns);

// Fills in `group` and `group_of_row` of a layer with k and groups. `indices`, if any, holds the
// group of each row; those that only repeat row / group are left out. Throws FileError for a row of
// a group that is not there, and when no group size makes so many groups.
void set_groups(const TensorFile& file, const StoredTensor& scales, const StoredTensor* indices,
                Layer* layer);

// The type of unsigned (or signed) numbers of so many bits that operands can have: the next wider
// one where there is none.
ElemType code_type(int bits, bool is_signed);

}  // namespace tilewright::weights
