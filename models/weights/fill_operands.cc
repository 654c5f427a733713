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
  auto require = [&](Zeros kind, const char* suffix, const char* title) {
    if (layer.zeros != kind || find(name + suffix) != nullptr) return;
    throw FileError(fmt::format("{}: the layer has {} and the spec has none; it takes {}", what,
                                title, layer.spec_keys()));
  };
  require(Zeros::Offsets, ".offset", "offsets");
  require(Zeros::Integers, ".zero", "zero points");
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
      throw FileError(fmt::format("{}; the layer takes {}", e.what(), layer.spec_keys()));
    }
    filled.names.push_back(part.name());
  }
  for (const char* suffix : {".zero", ".offset"}) {
    HostArray* none = find(name + suffix);
    if (none == nullptr || std::ranges::count(filled.names, none->name()) > 0) continue;
    for (int64_t i = 0; i < none->count(); ++i) none->set(i, 0);
    filled.names.push_back(none->name());
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
