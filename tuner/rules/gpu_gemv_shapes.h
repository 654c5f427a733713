// How threads share the product of a matrix and a few vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/target.h"

namespace tilewright {

inline constexpr int64_t kWarpLanes = 32;
inline constexpr int64_t kMostGemvSums = 64;  // of a thread
// Of a matrix that runs across the terms, rows on their way to a thread at once.
inline constexpr int64_t kGemvRows = 4;

// Along terms: `across` warps take `each` rows, `deep` warps share the terms of a row. Across them:
// `across` threads take `each` columns, `deep` share the terms.
struct GemvShape {
  int64_t across, deep, each;

  std::string name() const;
};

// The product many[rows, terms] * few[terms, vectors], of `batch` matrices, as threads read it:
// `vector` neighbouring elements of `bits` bits at once.
struct GemvSizes {
  int64_t vectors, rows, terms, batch, vector;
  int bits;
};

// Threads take several turns along the terms. What keeps memory busy comes first; of these what reads
// the vectors least often.
std::vector<GemvShape> gemv_shapes_of_warps(const GemvSizes& sizes, const GpuFacts& gpu);
std::vector<GemvShape> gemv_shapes_of_threads(const GemvSizes& sizes, const GpuFacts& gpu);

}  // namespace tilewright
