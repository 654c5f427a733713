// Weights of a few bits as ggml stores them: rows of blocks along k, each with its scale.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bench/peers/problem.h"

namespace tilewright::peers {

// A weight [k, n] of a spec as a ggml tensor of n rows of k elements.
struct BlockWeight {
  ggml_type type;
  std::vector<uint8_t> rows;
  const char* remark;  // what differs from the spec's weight; may be empty
};

// Throws Unsupported for a weight that none of ggml's types holds: they take i4 (Q4_0) and i8
// (Q8_0) with scales in f16, u4 with zero points (Q4_K) or offsets in f16 (Q4_1), and f4e2m1 with
// scales in e8m0 (MXFP4), each in groups of multiples of 32, of which every block of 32 gets a scale
// of its own.
void require_block_weight(const PeerSpec& spec);
// Throws as that does, and for scales below 0 beside zero points.
BlockWeight block_weight(const PeerSpec& spec, const Operands& operands);

}  // namespace tilewright::peers
