// Thread mappings for the product of a matrix and a few vectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/target.h"

namespace tilewright {

inline constexpr int64_t kWarpLanes = 32;
inline constexpr int64_t kMostGemvSums = 64;  // per thread
// Rows in flight per thread, for a matrix that is not contiguous along k.
inline constexpr int64_t kGemvRows = 4;

// Along k: `across` warps take `each` rows, and `deep` warps share a row's k. Across k: `across`
// threads take `each` columns, and `deep` threads share k.
struct GemvShape {
  int64_t across, deep, each;

  std::string name() const;
};

// The product many[rows, terms] * few[terms, vectors] of `batch` matrices. Threads read `vector`
// neighbouring elements of `bits` bits at once.
struct GemvSizes {
  int64_t vectors, rows, terms, batch, vector;
  int bits;
};

// Threads take several turns along k. Shapes that keep memory busy come first; among them, those
// that read the vectors least often.
std::vector<GemvShape> gemv_shapes_of_warps(const GemvSizes& sizes, const GpuFacts& gpu);
std::vector<GemvShape> gemv_shapes_of_threads(const GemvSizes& sizes, const GpuFacts& gpu);

}  // namespace tilewright
