// The `pack-quantized` layers of compressed-tensors: `weight_packed` i32 [n, words], packed along
// k; `weight_shape` i64 [2], which is n and k; `weight_scale` [n, groups], or one number for all;
// for asymmetric layers `weight_zero_point` i32 [words, groups], packed along n, or from its older
// versions i8 [n, groups]; for act-order `weight_g_idx` i32 [k], the group of each row (with a -1 in
// it: not in use). Packed numbers are stored with 2^(bits - 1) added, without gaps between words.
//
// A value is (q - zero) * scale in the type of the scales, with signed q and zero
// (compressed-tensors, `_dequantize` of quantization/lifecycle/forward.py and `unpack_from_int32`).
// Where there are zero points, the operands are the stored, unsigned numbers: the difference is the
// same.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "models/weights/packed_words.h"
#include "models/weights/schemes.h"
#include "runtime/tensor/element.h"

namespace tilewright::weights {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 40;

struct CompressedParts {
  const StoredTensor &packed, &shape, &scales;
  const StoredTensor *zeros, *indices;
};

// The indices, unless one is -1: then there is no order but that of the rows.
const StoredTensor* indices_in_use(const TensorFile& file, const std::string& name) {
  if (file.find(name + ".weight_g_idx") == nullptr) return nullptr;
  const StoredTensor& indices = part(file, name, ".weight_g_idx", {ElemType::i32}, 1);
  std::vector<int32_t> list(static_cast<size_t>(indices.count));
  std::memcpy(list.data(), file.data(indices).data(), indices.bytes);
  bool unused = std::find(list.begin(), list.end(), -1) != list.end();
  return unused ? nullptr : &indices;
}

CompressedParts compressed_parts(const TensorFile& file, const std::string& name) {
  const StoredTensor* scale = file.find(name + ".weight_scale");
  size_t axes = scale != nullptr && scale->shape.size() < 2 ? scale->shape.size() : 2;
  const StoredTensor* zeros = file.find(name + ".weight_zero_point");
  if (zeros != nullptr) {
    zeros = &part(file, name, ".weight_zero_point", {ElemType::i32, ElemType::i8}, 2);
  }
  return {part(file, name, ".weight_packed", {ElemType::i32}, 2),
          part(file, name, ".weight_shape", {ElemType::i64, ElemType::i32}, 1),
          part(file, name, ".weight_scale", kScaleTypes, axes), zeros, indices_in_use(file, name)};
}

bool is_packed(const StoredTensor& zeros) { return zeros.type->elem == ElemType::i32; }

// k, from the stored shape; n has to be that of the packed rows.
int64_t rows_of(const TensorFile& file, const CompressedParts& parts) {
  TensorView shape = file.view(parts.shape);
  double n = parts.shape.count == 2 ? shape.get(0) : 0, k = n > 0 ? shape.get(1) : 0;
  if (n != static_cast<double>(parts.packed.shape[0]) || k < 1 ||
      k > static_cast<double>(kMaxExtent)) {
    bad_part(file, parts.shape,
             fmt::format("expected the two extents of a weight, the first {}, found {}",
                         parts.packed.shape[0],
                         parts.shape.count == 2 ? fmt::format("{} and {}", n, k)
                                                : describe_shape(parts.shape.shape)));
  }
  return static_cast<int64_t>(k);
}

// The width of a number, from the words that k of them take and those that n zero points take. The
// format itself knows 4 and 8; other widths came with older versions of it.
int bits_of_words(const TensorFile& file, const CompressedParts& parts, int64_t k) {
  const StoredTensor* zeros =
      parts.zeros != nullptr && is_packed(*parts.zeros) ? parts.zeros : nullptr;
  auto fits = [&](int bits) {
    return PackedWords::words_for(k, bits) == parts.packed.shape[1] &&
           (zeros == nullptr ||
            PackedWords::words_for(parts.packed.shape[0], bits) == zeros->shape[0]);
  };
  for (const std::vector<int>& widths : {std::vector{4, 8}, std::vector{2, 3, 5, 6, 7}}) {
    auto fitting = std::count_if(widths.begin(), widths.end(), fits);
    if (fitting == 1) return *std::find_if(widths.begin(), widths.end(), fits);
    if (fitting > 1) break;
  }
  bad_part(
      file, parts.packed,
      fmt::format(
          "expected one width of 2 to 8 bits that gives {} words per row of {}{}",
          parts.packed.shape[1], k,
          zeros == nullptr ? "" : fmt::format(" and {} words of zero points", zeros->shape[0])));
}

void check_scales(const TensorFile& file, const CompressedParts& parts, const Layer& layer) {
  bool one = parts.scales.count == 1;
  if (!one && (parts.scales.shape.size() != 2 || parts.scales.shape[0] != layer.n)) {
    bad_part(file, parts.scales,
             fmt::format("expected {} rows of scales, found {}", layer.n,
                         describe_shape(parts.scales.shape)));
  }
  if (parts.zeros == nullptr) return;
  const std::vector<int64_t>& zeros = parts.zeros->shape;
  bool fit = parts.scales.shape.size() == 2 && zeros[1] == layer.groups && (!one || layer.n == 1) &&
             (is_packed(*parts.zeros) || zeros[0] == layer.n);
  if (!fit) {
    bad_part(file, *parts.zeros,
             fmt::format("expected zero points for scales {}, found {}",
                         describe_shape(parts.scales.shape), describe_shape(parts.zeros->shape)));
  }
}

std::optional<Layer> describe_compressed(const TensorFile& file, const std::string& name) {
  CompressedParts parts = compressed_parts(file, name);
  Layer layer;
  layer.name = name;
  layer.format = "compressed-tensors";
  layer.n = parts.packed.shape[0];
  layer.k = rows_of(file, parts);
  layer.groups = parts.scales.shape.size() == 2 ? parts.scales.shape[1] : 1;
  layer.scale = *parts.scales.type->elem;
  check_scales(file, parts, layer);
  layer.bits = bits_of_words(file, parts, layer.k);
  layer.dtype = code_type(layer.bits, parts.zeros == nullptr);
  layer.zeros = parts.zeros == nullptr ? Zeros::None : Zeros::Integers;
  set_groups(file, parts.scales, parts.indices, &layer);
  if (parts.indices != nullptr && layer.group * layer.groups != layer.k) {
    bad_part(file, *parts.indices,
             fmt::format("expected {} rows in each group, found up to {}", layer.k / layer.groups,
                         layer.group));
  }
  return layer;
}

// The bits of a stored number in the operand's type.
uint32_t code_of(const Layer& layer, uint32_t stored) {
  if (layer.zeros == Zeros::Integers) return stored;
  uint32_t mask = (1u << bits_of(layer.dtype)) - 1;
  return (stored - (1u << (layer.bits - 1))) & mask;
}

// The zero points as unsigned numbers, like the packed ones.
void read_zeros(const TensorFile& file, const CompressedParts& parts, const Layer& layer,
                HostArray* to) {
  const int64_t n = layer.n, groups = layer.groups;
  CodeWriter codes(to);
  if (is_packed(*parts.zeros)) {
    for (int64_t g = 0; g < groups; ++g) {
      PackedWords column(file.data(*parts.zeros).data() + 4 * g, groups, layer.bits);
      for (int64_t j = 0; j < n; ++j) codes.put(g * n + j, column.at(j));
    }
    return;
  }
  const int half = 1 << (layer.bits - 1);
  TensorView zeros = file.view(*parts.zeros);
  for (int64_t i = 0; i < n * groups; ++i) {
    auto zero = static_cast<int>(zeros.get(i));
    if (zero < -half || zero >= half) {
      damaged(file.path_of(*parts.zeros), parts.zeros->offset + static_cast<uint64_t>(i),
              fmt::format("expected a zero point from {} to {} in '{}', found {}", -half, half - 1,
                          parts.zeros->name, zero));
    }
    codes.put(i % groups * n + i / groups, static_cast<uint32_t>(zero + half));
  }
}

QuantizedWeight read_compressed(const TensorFile& file, const Layer& layer, const LayerOptions&,
                                const std::string& operand) {
  CompressedParts parts = compressed_parts(file, layer.name);
  const int64_t k = layer.k, n = layer.n, groups = layer.groups;
  QuantizedWeight w{part_array(operand, "", layer.dtype, k, n),
                    part_array(operand, ".scale", layer.scale, groups, n),
                    std::nullopt,
                    std::nullopt,
                    layer.group,
                    layer.group_of_row,
                    layer.scale};
  CodeWriter codes(&w.q);
  for (int64_t j = 0; j < n; ++j) {
    PackedWords row(file.data(parts.packed).data() + 4 * j * parts.packed.shape[1], 1, layer.bits);
    for (int64_t i = 0; i < k; ++i) codes.put(i * n + j, code_of(layer, row.at(i)));
  }
  TensorView scales = file.view(parts.scales);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t g = 0; g < groups; ++g) {
      w.scale.set(g * n + j, scales.get(parts.scales.count == 1 ? 0 : j * groups + g));
    }
  }
  if (parts.zeros == nullptr) return w;
  w.zero = part_array(operand, ".zero", layer.dtype, groups, n);
  read_zeros(file, parts, layer, &*w.zero);
  return w;
}

}  // namespace

constexpr Scheme kCompressedTensors = {".weight_packed", describe_compressed, read_compressed};

}  // namespace tilewright::weights
