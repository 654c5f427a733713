#include "graph/decoder/decoder_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "runtime/tensor/element.h"

namespace tilewright::graph {
namespace {

const weights::StoredTensor& shaped_tensor(const weights::TensorFile& file, const std::string& name,
                                           const Shape& shape) {
  const weights::StoredTensor& tensor = tensor_of(file, name);
  if (tensor.shape != shape) {
    weights::damaged(file.path(), tensor.offset,
                     fmt::format("tensor '{}': expected {}, found {}", name, describe_shape(shape),
                                 describe_shape(tensor.shape)));
  }
  return tensor;
}

// The elements as f32.
std::string floats_of(const weights::TensorFile& file, const weights::StoredTensor& tensor) {
  const TensorView view = file.view(tensor);
  if (!is_float(view.elem)) {
    weights::damaged(file.path(), tensor.offset,
                     fmt::format("tensor '{}': expected floats or blocks of ggml, found {}",
                                 tensor.name, tensor.type->name));
  }
  std::string data(static_cast<size_t>(tensor.count) * sizeof(float), '\0');
  if (view.elem == ElemType::f32) {
    std::memcpy(data.data(), view.data, data.size());
    return data;
  }
  for (int64_t i = 0; i < tensor.count; ++i) {
    store_element(ElemType::f32, data.data(), i, load_element(view.elem, view.data, i));
  }
  return data;
}

// Matrices with as many rows each, beside each other.
StoredPart beside(const std::string& suffix, const std::vector<const HostArray*>& arrays) {
  StoredPart part{suffix, arrays[0]->elem(), {arrays[0]->shape()[0], 0}, nullptr};
  for (const HostArray* a : arrays) part.shape[1] += a->shape()[1];
  auto data = std::make_shared<std::string>();
  for (int64_t row = 0; row < part.shape[0]; ++row) {
    for (const HostArray* a : arrays) {
      const int64_t bytes = bytes_for(part.elem, a->shape()[1]);
      data->append(static_cast<const char*>(a->data()) + row * bytes, static_cast<size_t>(bytes));
    }
  }
  part.data = std::move(data);
  return part;
}

weights::QuantizedWeight read_codes(const weights::TensorFile& file,
                                    const weights::StoredTensor& tensor, std::string* keys) {
  const weights::Layer layer = *weights::find_layer(file, tensor.name);
  *keys = layer.spec_keys();
  if (bits_of(layer.dtype) * layer.n % 8 != 0) {
    weights::damaged(file.path(), tensor.offset,
                     fmt::format("tensor '{}': expected an even number of rows for {}, found {}",
                                 tensor.name, layer.format, layer.n));
  }
  return weights::read_layer(file, layer, {}, "B");
}

bool has_codes(const weights::TensorFile& file, const std::string& name) {
  return weights::find_layer(file, name).has_value();
}

StoredMatrix of_codes(std::string keys, const std::vector<weights::QuantizedWeight>& weights) {
  std::vector<const HostArray*> codes, scales, offsets;
  for (const weights::QuantizedWeight& w : weights) {
    codes.push_back(&w.q);
    scales.push_back(&w.scale);
    if (w.offset) offsets.push_back(&*w.offset);
  }
  StoredMatrix matrix{std::move(keys), {beside("", codes), beside(".scale", scales)}};
  if (!offsets.empty()) matrix.parts.push_back(beside(".offset", offsets));
  return matrix;
}

}  // namespace

const weights::StoredTensor& tensor_of(const weights::TensorFile& file, const std::string& name) {
  const weights::StoredTensor* tensor = file.find(name);
  if (tensor == nullptr) {
    throw FileError(fmt::format("{}: it lacks the tensor '{}'", file.path(), name));
  }
  return *tensor;
}

bool can_join(const weights::TensorFile& file, const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [&](const std::string& name) {
    return tensor_of(file, name).type == tensor_of(file, names[0]).type;
  });
}

StoredMatrix read_matrix(const weights::TensorFile& file, const std::vector<std::string>& names,
                         const std::vector<int64_t>& rows, int64_t k) {
  std::string keys, floats;
  std::vector<weights::QuantizedWeight> codes;
  int64_t all = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const weights::StoredTensor& tensor = shaped_tensor(file, names[i], {rows[i], k});
    all += rows[i];
    if (has_codes(file, names[i])) {
      codes.push_back(read_codes(file, tensor, &keys));
    } else {
      floats += floats_of(file, tensor);
    }
  }
  if (!codes.empty()) return of_codes(keys, codes);
  return {"trans_b=true",
          {{"", ElemType::f32, {all, k}, std::make_shared<const std::string>(std::move(floats))}}};
}

StoredPart read_vector(const weights::TensorFile& file, const std::string& name, int64_t n) {
  const weights::StoredTensor& tensor = shaped_tensor(file, name, {n});
  return {"", ElemType::f32, {n}, std::make_shared<const std::string>(floats_of(file, tensor))};
}

StoredMatrix read_table(const weights::TensorFile& file, const std::string& name, int64_t rows,
                        int64_t k) {
  const weights::StoredTensor& tensor = shaped_tensor(file, name, {rows, k});
  StoredMatrix table = read_matrix(file, {name}, {rows}, k);
  StoredPart& codes = table.parts[0];
  if (!has_codes(file, name) || bits_of(codes.elem) == 8) return table;
  if (is_float(codes.elem)) {
    std::string keys;
    const std::vector<float> values = weights::dequantize(read_codes(file, tensor, &keys));
    std::string data(values.size() * sizeof(float), '\0');
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < rows; ++j) {
        std::memcpy(&data[static_cast<size_t>(j * k + i) * sizeof(float)],
                    &values[static_cast<size_t>(i * rows + j)], sizeof(float));
      }
    }
    return {"trans_b=true",
            {{"", ElemType::f32, {rows, k}, std::make_shared<const std::string>(std::move(data))}}};
  }
  const bool is_signed = codes.elem == ElemType::i4 || codes.elem == ElemType::i2;
  const ElemType wide = is_signed ? ElemType::i8 : ElemType::u8;
  auto bytes = std::make_shared<std::string>(static_cast<size_t>(rows * k), '\0');
  for (int64_t i = 0; i < rows * k; ++i) {
    store_element(wide, bytes->data(), i, load_element(codes.elem, codes.data->data(), i));
  }
  codes.elem = wide;
  codes.data = std::move(bytes);
  return table;
}

}  // namespace tilewright::graph
