// Graphs from GGUF files of decoders.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "models/weights/tensor_file.h"

namespace tilewright::graph {

struct DecoderSizes {
  int64_t tokens = 1;      // that a run takes
  int64_t context = 1024;  // positions for which there is room
};

// A decoder of the llama family (Touvron et al., "LLaMA", 2023): embedding, layers of attention over all
// tokens so far and of a gated MLP, logits of one token. Weights keep the codes that the file has.
//
//   inputs   tokens     i32[tokens]  the next tokens; numbers beyond the vocabulary count as its ends
//            position   i32[1]       of the first of them: 0 to context - tokens
//            last       i32[1]       which of them gets logits; only with several
//   outputs  logits     f32[vocabulary]
//   states   blk.N.keys, blk.N.values: f32[heads of keys, context, elements of a head]
//
// Runs of one sequence are at positions that follow each other. A token sees those before it, so tokens
// behind `last` change nothing and the next run may begin in their place. Position 0 begins a new sequence.
//
// Throws FileError that names the entry or the tensor where the file is no such decoder, and UsageError
// for sizes that it does not take.
Graph import_decoder(const weights::TensorFile& file, const DecoderSizes& sizes);

}  // namespace tilewright::graph
