// Files of weights in the C interface: what they hold, and their tensors and layers as operands.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/ops/spec.h"
#include "models/weights/read_operands.h"
#include "serving/served.h"
#include "serving/status.h"

namespace weights = tilewright::weights;
namespace serving = tilewright::serving;
using serving::guarded;
using serving::require;

struct tw_weight_file {
  explicit tw_weight_file(const char* path)
      : file(weights::TensorFile::open(path)), layers(weights::list_layers(file)) {
    for (const weights::LayerEntry& entry : layers) {
      keys.push_back(entry.layer ? entry.layer->spec_keys() : "");
    }
  }

  weights::TensorFile file;
  std::vector<weights::LayerEntry> layers;
  std::vector<std::string> keys;  // one for each layer
};

struct tw_operands {
  explicit tw_operands(weights::ReadOperands from) : read(std::move(from)) {
    tensors.reserve(read.arrays.size());  // named ones point to them
    for (tilewright::HostArray& array : read.arrays) {
      // DLPack has no constant shapes.
      auto* shape = const_cast<int64_t*>(array.shape().data());  // NOLINT(*-const-cast)
      tensors.push_back({array.data(),
                         {kDLCPU, 0},
                         static_cast<int32_t>(array.shape().size()),
                         serving::dl_type(array.elem()),
                         shape,
                         nullptr,
                         0});
      named.push_back({array.name().c_str(), &tensors.back()});
    }
  }

  weights::ReadOperands read;
  std::vector<DLTensor> tensors;
  std::vector<tw_named_tensor> named;
};

namespace tilewright::serving {
namespace {

tw_stored_tensor stored_tensor(const weights::TensorFile& file, const weights::StoredTensor& t) {
  tw_stored_tensor told = {};
  told.name = t.name.c_str();
  told.type = t.type->name.data();  // a literal
  if (t.type->elem) told.dtype = dl_type(*t.type->elem);
  told.ndim = static_cast<int32_t>(t.shape.size());
  told.shape = t.shape.data();
  told.data = file.data(t).data();
  told.bytes = t.bytes;
  return told;
}

tw_stored_layer stored_layer(const weights::LayerEntry& entry, const std::string& keys) {
  tw_stored_layer told = {};
  told.name = entry.name.c_str();
  told.format = "";
  told.problem = entry.problem.c_str();
  told.keys = keys.c_str();
  if (!entry.layer) return told;
  const weights::Layer& layer = *entry.layer;
  told.format = layer.format.c_str();
  told.k = layer.k;
  told.n = layer.n;
  told.group = layer.group;
  told.bits = layer.bits;
  told.act_order = layer.group_of_row.empty() ? 0 : 1;
  return told;
}

// The operands of the kernel that a weight for `operand` may fill.
std::vector<weights::OperandForm> forms_of(const Served& kernel, const std::string& operand) {
  std::vector<weights::OperandForm> forms;
  std::string names;
  for (const Operand& o : kernel.operands()) {
    names += (names.empty() ? "" : ", ") + o.name;
    if (o.name != operand && !o.name.starts_with(operand + ".")) continue;
    if (std::count(o.known_shape.begin(), o.known_shape.end(), -1) > 0) {
      throw ServingError(TW_ERROR_ARGUMENT,
                         fmt::format("operand '{}' of {} has sizes that are known only at launch; "
                                     "expected a weight",
                                     o.name, kernel.text()));
    }
    forms.push_back({o.name, o.elem, o.known_shape});
  }
  if (forms.empty() || forms[0].name != operand) {
    throw ServingError(TW_ERROR_ARGUMENT, fmt::format("'{}' is no operand of {}; it takes {}",
                                                      operand, kernel.text(), names));
  }
  return forms;
}

// Refuses rows in another order for a kernel whose other factor cannot take its columns so.
void check_order(const Served& kernel, const Spec& spec, const std::string& operand,
                 const std::string& name) {
  const bool factor = spec.op == "matmul" && operand == "B" && !spec.get<bool>("trans_a");
  if (factor && bits_of(kernel.operands()[0].elem) >= 8) return;
  throw ServingError(TW_ERROR_ARGUMENT,
                     fmt::format("'{}' has its rows in act-order, which only B of a matmul without "
                                 "trans_a may have, beside elements of A of 8 bits or more; use a "
                                 "spec without w.*",
                                 name));
}

weights::ReadOperands read(const weights::TensorFile& file, const std::string& name,
                           const tw_read_options& options) {
  const std::string operand = options.operand == nullptr ? "B" : options.operand;
  const std::string gptq = options.gptq_format == nullptr ? "" : options.gptq_format;
  if (!gptq.empty() && gptq != "gptq" && gptq != "gptq_v2") {
    throw ServingError(TW_ERROR_ARGUMENT,
                       fmt::format("gptq_format is '{}'; expected gptq or gptq_v2", gptq));
  }
  if (options.kernel == nullptr) {
    return weights::read_operands(file, name, operand, {}, gptq, false);
  }
  const Served& kernel = served(options.kernel);
  const Spec spec = parse_spec(kernel.text());
  const bool transposed = spec.op == "matmul" && operand == "B" && spec.get<bool>("trans_b");
  weights::ReadOperands made =
      weights::read_operands(file, name, operand, forms_of(kernel, operand), gptq, transposed);
  if (!made.order.empty()) check_order(kernel, spec, operand, name);
  return made;
}

}  // namespace
}  // namespace tilewright::serving

extern "C" {

tw_status tw_open_weights(const char* path, tw_weight_file** file) noexcept {
  return guarded([&] {
    require(path, "path");
    require(file, "file");
    *file = std::make_unique<tw_weight_file>(path).release();
  });
}

void tw_close_weights(tw_weight_file* file) noexcept { delete file; }

size_t tw_stored_tensor_count(const tw_weight_file* file) noexcept {
  return file == nullptr ? 0 : file->file.tensors().size();
}

tw_status tw_stored_tensor_at(const tw_weight_file* file, size_t index,
                              tw_stored_tensor* tensor) noexcept {
  return guarded([&] {
    require(file, "file");
    const auto& tensors = file->file.tensors();
    serving::check_index(index, tensors.size(), "tensors");
    serving::write_struct(tensor, serving::stored_tensor(file->file, tensors[index]),
                          "tw_stored_tensor");
  });
}

size_t tw_stored_layer_count(const tw_weight_file* file) noexcept {
  return file == nullptr ? 0 : file->layers.size();
}

tw_status tw_stored_layer_at(const tw_weight_file* file, size_t index,
                             tw_stored_layer* layer) noexcept {
  return guarded([&] {
    require(file, "file");
    serving::check_index(index, file->layers.size(), "quantized layers");
    serving::write_struct(layer, serving::stored_layer(file->layers[index], file->keys[index]),
                          "tw_stored_layer");
  });
}

tw_status tw_read_weights(const tw_weight_file* file, const char* name,
                          const tw_read_options* options, tw_operands** operands) noexcept {
  return guarded([&] {
    require(file, "file");
    require(name, "name");
    require(operands, "operands");
    tw_read_options asked = {};
    if (options != nullptr) asked = serving::read_struct(options, "tw_read_options");
    *operands = std::make_unique<tw_operands>(serving::read(file->file, name, asked)).release();
  });
}

void tw_free_operands(tw_operands* operands) noexcept { delete operands; }

size_t tw_operands_count(const tw_operands* operands) noexcept {
  return operands == nullptr ? 0 : operands->named.size();
}

const tw_named_tensor* tw_operands_tensors(const tw_operands* operands) noexcept {
  return operands == nullptr ? nullptr : operands->named.data();
}

const int64_t* tw_operands_order(const tw_operands* operands, size_t* count) noexcept {
  const bool any = operands != nullptr && !operands->read.order.empty();
  if (count != nullptr) *count = any ? operands->read.order.size() : 0;
  return any ? operands->read.order.data() : nullptr;
}

}  // extern "C"
