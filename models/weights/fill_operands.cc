#include "models/weights/fill_operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"
#include "runtime/tensor/npy.h"

namespace tilewright::weights {
namespace {

// The matrix [n, k] of a matrix [k, n].
HostArray transpose(const HostArray& from) {
  const int64_t rows = from.shape()[0], columns = from.shape()[1];
  HostArray to(from.name(), from.elem(), {columns, rows});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) to.set(j * rows + i, from.get(i * columns + j));
  }
  return to;
}

HostArray dense(const QuantizedWeight& weight, const std::string& name) {
  HostArray values(name, ElemType::f32, {weight.k(), weight.n()});
  std::vector<float> list = dequantize(weight);
  std::copy(list.begin(), list.end(), static_cast<float*>(values.data()));
  return values;
}

void assign_turned(HostArray* to, const HostArray& from, bool transposed, const std::string& what) {
  if (transposed) {
    assign(to, view_of(transpose(from)), what);
  } else {
    assign(to, view_of(from), what);
  }
}

HostArray& array_of(const FindArray& find, const std::string& operand) {
  HostArray* array = find(operand);
  if (array == nullptr) throw Error(fmt::format("there is no operand '{}'", operand));
  return *array;
}

// Refuses operands that have no place for what stands beside the scales.
void check_zeros(const FindArray& find, const std::string& name, const Layer& layer,
                 const std::string& what) {
  if (layer.zeros == Zeros::Offsets && find(name + ".offset") == nullptr) {
    throw FileError(
        fmt::format("{}: {} has one offset per group, which no w.zero says; leave out the keys w.* "
                    "to run on its dequantized values",
                    what, layer.format));
  }
  if (layer.zeros == Zeros::Integers && find(name + ".zero") == nullptr) {
    throw FileError(fmt::format("{}: the layer has zero points and the spec has none; it takes {}",
                                what, layer.spec_keys()));
  }
}

}  // namespace

Filled fill_operands(OperandSet* operands, const std::string& name, const TensorFile& file,
                     const Layer& layer, const LayerOptions& options, bool transposed) {
  const auto find = [operands](const std::string& operand) { return operands->find(operand); };
  return fill_operands(find, name, file, layer, options, transposed);
}

Filled fill_operands(const FindArray& find, const std::string& name, const TensorFile& file,
                     const Layer& layer, const LayerOptions& options, bool transposed) {
  const std::string what = file.path() + ":" + layer.name;
  QuantizedWeight weight = read_layer(file, layer, options, name);
  if (find(name + ".scale") == nullptr) {
    assign_turned(&array_of(find, name), dense(weight, name), transposed, what);
    return {{name}, {}};
  }
  check_zeros(find, name, layer, what);
  WeightOperands parts = to_operands(std::move(weight), what);
  Filled filled{{}, std::move(parts.order)};
  for (const HostArray& part : parts.arrays) {
    bool turned = transposed && part.name() == name;
    try {
      assign_turned(&array_of(find, part.name()), part, turned, what);
    } catch (const FileError& e) {
      std::string keys = layer.spec_keys();
      throw FileError(keys.empty() ? e.what()
                                   : fmt::format("{}; the layer takes {}", e.what(), keys));
    }
    filled.names.push_back(part.name());
  }
  HostArray* zero = find(name + ".zero");
  if (zero != nullptr && layer.zeros == Zeros::None) {
    for (int64_t i = 0; i < zero->count(); ++i) zero->set(i, 0);
    filled.names.push_back(zero->name());
  }
  return filled;
}

void take_columns(HostArray* matrix, const std::vector<int64_t>& order) {
  const auto columns = static_cast<int64_t>(order.size());
  TW_ASSERT(matrix->shape().back() == columns, "an order of all columns of " + matrix->name());
  std::vector<double> row(order.size());
  for (int64_t first = 0; first < matrix->count(); first += columns) {
    for (int64_t j = 0; j < columns; ++j) {
      row[static_cast<size_t>(j)] = matrix->get(first + order[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < columns; ++j) matrix->set(first + j, row[static_cast<size_t>(j)]);
  }
}

}  // namespace tilewright::weights
