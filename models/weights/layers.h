// Quantized layers in files of tensors: which there are, and their weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/weights/quantized_weight.h"
#include "models/weights/tensor_file.h"

namespace tilewright::weights {

struct Scheme;

// The kind of zero points or offsets beside the scales.
enum class Zeros : uint8_t { None, Integers, Offsets };

// A layer by the headers, with no weight read.
struct Layer {
  std::string name;    // what its tensors' names begin with; of a GGUF file, the tensor's name
  std::string format;  // "gptq", "awq", "compressed-tensors", "Q4_K", …
  int bits = 0;        // of a stored number
  ElemType dtype = ElemType::u4;   // of the operand; 3-bit numbers stand in 4 bits
  ElemType scale = ElemType::f16;  // of the scales, and of the offsets beside them
  Zeros zeros = Zeros::None;
  int64_t k = 0, n = 0;
  int64_t group = 0, groups = 0;
  std::vector<int32_t> group_of_row;  // of act-order layers
  const Scheme* scheme = nullptr;     // how it is read; null: the blocks of a GGUF tensor

  // The keys that a matmul takes for it: "w.dtype=u4,w.group=128,w.scale=f16,w.zero=u4".
  std::string spec_keys() const;
};

// GPTQ files come in two kinds that look alike: the first stores each zero point less one.
enum class GptqZeros : uint8_t { LessOne, AsTheyAre };

struct LayerOptions {
  GptqZeros gptq_zeros = GptqZeros::LessOne;
};

// The layer of this name, or nothing when no tensors of the file make one. Throws FileError when
// they are there and do not fit together.
std::optional<Layer> find_layer(const TensorFile& file, const std::string& name);

// The weight of a layer that was found in this file. Its arrays are called `operand`,
// `operand`.scale and so on.
QuantizedWeight read_layer(const TensorFile& file, const Layer& layer, const LayerOptions& options,
                           const std::string& operand = "B");

// A layer as a listing shows it: what is wrong with it in the place of its facts, if so.
struct LayerEntry {
  std::string name;
  std::optional<Layer> layer;
  std::string problem;
};
std::vector<LayerEntry> list_layers(const TensorFile& file);

// The form of GPTQ zero points by the configuration beside a model's file: `checkpoint_format` in
// `quantize_config.json` or in `quantization_config` of `config.json`. Throws FileError when such a
// file is no JSON.
GptqZeros gptq_zeros_beside(const std::string& model_path);

// How the layer's zero points are stored where a user says `gptq_format` ("gptq" or "gptq_v2"; empty:
// the configuration beside the file decides).
LayerOptions layer_options(const TensorFile& file, const Layer& layer,
                           const std::string& gptq_format);

}  // namespace tilewright::weights
