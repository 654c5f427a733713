#include "models/weights/read_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "models/weights/fill_operands.h"
#include "runtime/error.h"
#include "runtime/tensor/npy.h"

namespace tilewright::weights {
namespace {

// Arrays as the file stores them.
ReadOperands as_stored(const TensorFile& file, const StoredTensor& tensor,
                       const std::string& operand) {
  const TensorView view = file.view(tensor);
  ReadOperands read;
  read.arrays.emplace_back(operand, view.elem, view.shape);
  assign(&read.arrays.back(), view, file.path() + ":" + tensor.name);
  return read;
}

ReadOperands as_stored(const TensorFile& file, const Layer& layer, const std::string& operand,
                       const LayerOptions& options) {
  WeightOperands parts =
      to_operands(read_layer(file, layer, options, operand), file.path() + ":" + layer.name);
  return {std::move(parts.arrays), std::move(parts.order)};
}

ReadOperands in_form_of(const TensorFile& file, const StoredTensor& tensor,
                        const OperandForm& form) {
  ReadOperands read;
  read.arrays.emplace_back(form.name, form.elem, form.shape);
  assign(&read.arrays.back(), file.view(tensor), file.path() + ":" + tensor.name);
  return read;
}

ReadOperands in_form_of(const TensorFile& file, const Layer& layer, const std::string& operand,
                        const std::vector<OperandForm>& forms, const LayerOptions& options,
                        bool transposed) {
  std::list<HostArray> arrays;  // whose addresses stay
  const FindArray find = [&](const std::string& name) -> HostArray* {
    for (HostArray& array : arrays) {
      if (array.name() == name) return &array;
    }
    const auto form = std::find_if(forms.begin(), forms.end(),
                                   [&](const OperandForm& f) { return f.name == name; });
    if (form == forms.end()) return nullptr;
    return &arrays.emplace_back(form->name, form->elem, form->shape);
  };
  Filled filled = fill_operands(find, operand, file, layer, options, transposed);
  ReadOperands read{{}, std::move(filled.order)};
  for (HostArray& array : arrays) read.arrays.push_back(std::move(array));
  return read;
}

}  // namespace

ReadOperands read_operands(const TensorFile& file, const std::string& stored,
                           const std::string& operand, const std::vector<OperandForm>& forms,
                           const std::string& gptq_format, bool transposed) {
  const StoredTensor* tensor = file.find(stored);
  if (tensor != nullptr && tensor->count == 0) {
    throw FileError(fmt::format("{}: tensor '{}' is {}, which has no elements", file.path(), stored,
                                describe_shape(tensor->shape)));
  }
  if (tensor != nullptr && tensor->type->elem) {
    const auto form = std::find_if(forms.begin(), forms.end(),
                                   [&](const OperandForm& f) { return f.name == operand; });
    return form == forms.end() ? as_stored(file, *tensor, operand)
                               : in_form_of(file, *tensor, *form);
  }
  if (const std::optional<Layer> layer = find_layer(file, stored)) {
    const LayerOptions options = layer_options(file, *layer, gptq_format);
    return forms.empty() ? as_stored(file, *layer, operand, options)
                         : in_form_of(file, *layer, operand, forms, options, transposed);
  }
  if (tensor != nullptr) file.view(*tensor);  // says why it cannot be read
  throw FileError(
      fmt::format("{}: there is no tensor or quantized layer '{}'", file.path(), stored));
}

}  // namespace tilewright::weights
