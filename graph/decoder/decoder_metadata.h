// Sizes and numbers of a decoder, which a GGUF file of the llama family has as metadata.
#pragma once

#include <cstdint>

#include "models/weights/tensor_file.h"

namespace tilewright::graph {

struct Decoder {
  int64_t layers = 0, width = 0, inner = 0;  // `inner`: of the gated MLP
  int64_t heads = 0, key_heads = 0, head = 0, rotated = 0;
  int64_t vocabulary = 0, trained = 0;  // `trained`: positions
  int64_t window = 0;                   // keys that a query sees, itself among them; 0: all
  double eps = 0, rope_base = 0, rope_factor = 1;
};

// Throws FileError that names the entry where the file is no decoder of the llama family, lacks an entry,
// or has one that this importer does not know.
Decoder read_decoder(const weights::TensorFile& file);

}  // namespace tilewright::graph
