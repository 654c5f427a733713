#include "models/weights/schemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/error.h"

namespace tilewright::weights {
namespace {

std::string names_of(std::initializer_list<ElemType> types) {
  std::string names;
  for (ElemType type : types) names += (names.empty() ? "" : " or ") + to_string(type);
  return names;
}

// The group of each row as the file has it. Throws FileError for one that is not there.
std::vector<int32_t> read_indices(const TensorFile& file, const StoredTensor& indices,
                                  int64_t groups) {
  std::vector<int32_t> list(static_cast<size_t>(indices.count));
  std::memcpy(list.data(), file.data(indices).data(), indices.bytes);
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] >= 0 && list[i] < groups) continue;
    damaged(file.path_of(indices), indices.offset + 4 * i,
            fmt::format("expected a group from 0 to {} for row {} in '{}', found {}", groups - 1, i,
                        indices.name, list[i]));
  }
  return list;
}

}  // namespace

void bad_part(const TensorFile& file, const StoredTensor& tensor, const std::string& what) {
  damaged(file.path_of(tensor), tensor.offset, fmt::format("tensor '{}': {}", tensor.name, what));
}

const StoredTensor& part(const TensorFile& file, const std::string& layer, std::string_view suffix,
                         std::initializer_list<ElemType> types, size_t axes) {
  std::string name = layer + std::string(suffix);
  const StoredTensor* tensor = file.find(name);
  if (tensor == nullptr) {
    throw FileError(fmt::format("{}: layer '{}' lacks its tensor '{}'", file.path(), layer, name));
  }
  bool fits = tensor->type->elem &&
              std::find(types.begin(), types.end(), *tensor->type->elem) != types.end();
  if (!fits || tensor->shape.size() != axes || tensor->count == 0) {
    bad_part(file, *tensor,
             fmt::format("expected {} with {} {}, found {} {}", names_of(types), axes,
                         axes == 1 ? "axis" : "axes", tensor->type->name,
                         describe_shape(tensor->shape)));
  }
  return *tensor;
}

HostArray part_array(const std::string& operand, std::string_view suffix, ElemType elem,
                     int64_t rows, int64_t columns) {
  return HostArray(operand + std::string(suffix), elem, {rows, columns});
}

void set_groups(const TensorFile& file, const StoredTensor& scales, const StoredTensor* indices,
                Layer* layer) {
  const int64_t k = layer->k, groups = layer->groups;
  if (indices == nullptr) {
    if (k % groups != 0) {
      bad_part(
          file, scales,
          fmt::format("expected a number of groups that divides the {} rows, found {}", k, groups));
    }
    layer->group = k / groups;
    return;
  }
  if (indices->count != k) {
    bad_part(file, *indices, fmt::format("expected {} rows, found {}", k, indices->count));
  }
  std::vector<int32_t> list = read_indices(file, *indices, groups);
  std::vector<int64_t> sizes(static_cast<size_t>(groups));
  for (int32_t g : list) ++sizes[static_cast<size_t>(g)];
  layer->group = *std::max_element(sizes.begin(), sizes.end());
  bool in_order = true;
  for (int64_t i = 0; i < k; ++i) in_order &= list[static_cast<size_t>(i)] == i / layer->group;
  if (!in_order) layer->group_of_row = std::move(list);
}

ElemType code_type(int bits, bool is_signed) {
  if (bits <= 2) return is_signed ? ElemType::i2 : ElemType::u2;
  if (bits <= 4) return is_signed ? ElemType::i4 : ElemType::u4;
  return is_signed ? ElemType::i8 : ElemType::u8;
}

}  // namespace tilewright::weights
