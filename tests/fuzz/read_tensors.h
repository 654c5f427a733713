// Shared by the fuzz targets of tensor files.
#pragma once

#include <string_view>

#include "models/weights/layers.h"
#include "runtime/error.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

// Reads everything; damage gives a FileError.
inline void read_tensors(std::string_view bytes) {
  using namespace tilewright::weights;
  try {
    TensorFile file = TensorFile::parse(bytes, "m");
    for (const StoredTensor& tensor : file.tensors()) {
      require(tensor.offset + tensor.bytes <= bytes.size(), "a tensor lies outside of its file");
      if (!tensor.type->elem) continue;
      TensorView view = file.view(tensor);
      for (int64_t i = 0; i < view.count(); ++i) view.get(i);
    }
    for (const LayerEntry& entry : list_layers(file)) {
      if (!entry.layer) continue;
      QuantizedWeight weight = read_layer(file, *entry.layer, {});
      require(dequantize(weight).size() == static_cast<size_t>(weight.k() * weight.n()),
              "a layer has another number of weights than its sizes say");
    }
  } catch (const FileError&) {
  }
}

}  // namespace tilewright::fuzz
