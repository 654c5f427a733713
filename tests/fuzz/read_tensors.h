// What fuzzing of files of tensors has in common.
#pragma once

#include <string_view>

#include "runtime/error.h"
#include "runtime/weights/layers.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

// Reads all that there is to read; damage is refused with FileError.
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
